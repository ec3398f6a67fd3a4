// SPDX-License-Identifier: Apache-2.0
// Defines mixers that carry a state along the sequence, as operators between the block's norm and its addition.
// Parameters:
//
//   Mamba        in h·2C, conv C·(taps + 1), x C·(R + 2N), dt R·C + C, A C·N, D C, out C·h            (Gu, Dao 2023)
//   Mamba-2      in h·(2C + 2GN + H), conv (C + 2GN)·(taps + 1), dt, A, D 3H, norm C, out C·h         (Dao, Gu 2024)
//   gated delta  in h·(2K + 2V + 2H), conv (2K + V)·taps, dt, A 2H, norm v, out V·h              (Yang et al. 2024)
//   lightning    q, k, v 3·h·C, gate h·C, norm C, out C·h                                         (Qin et al. 2024)
//   short conv   in 3h², conv h·taps, out h²                                                                 (LFM2)
//   C inner width, N states, G groups, H heads, R time_step_rank, K = key heads·k, V = value heads·v
#pragma once

#include "model/fields.h"
#include "model/operators.h"

namespace espalier::model {

/// Returns a depthwise convolution along the sequence and its activation.
Operator causal_conv(std::string name, std::int64_t width, std::int64_t taps, bool bias);

struct Mamba2Shape {
  std::int64_t hidden = 0, heads = 0, features = 0, groups = 0, states = 0, taps = 0, chunk = 0;
  bool bias = false, conv_bias = true, norm = true;
};
Operators mamba2_mixer(const Mamba2Shape& shape);
/// Ignores keys of time steps and of kernels, which change no size.
void ignore_steps(Fields& fields);

/// Reads a file's mixer for a block of width `hidden`.
using ReadMixer = Operators (*)(Fields& fields, std::int64_t hidden);

/// Reads keys mamba_n_heads … (bamba, granitemoehybrid).
Operators read_mamba2_mixer(Fields& fields, std::int64_t hidden);
/// Reads keys mamba_d_state … (jamba).
Operators read_mamba_mixer(Fields& fields, std::int64_t hidden);
/// Reads keys linear_num_value_heads … (qwen3_next, qwen3_5).
Operators read_delta_mixer(Fields& fields, std::int64_t hidden);
/// Reads key block_size (minimax).
Operators read_lightning_mixer(Fields& fields, std::int64_t hidden);
/// Reads key conv_L_cache (lfm2).
Operators read_conv_mixer(Fields& fields, std::int64_t hidden);

}  // namespace espalier::model
