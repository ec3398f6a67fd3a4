// SPDX-License-Identifier: Apache-2.0
// Reads the architecture and the configuration from Megatron-LM command lines (`extra.args` of a record). An absent
// flag has the default of megatron/training/arguments.py, so that nothing about such a record is a guess.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "espalier/measured_runs.h"
#include "espalier/model.h"
#include "plan/engine_fwd.h"

namespace espalier::runs {

struct MegatronArguments {
  DecoderShape flags;  ///< gated, norms, biases, tied, positions, dropout, head_dim
  bool distributed_optimizer = false;
  bool overlap_grad = false, overlap_param = false;
  bool unfused_attention = false;        ///< --attention-backend unfused or local: scores are kept
  bool deterministic = false;            ///< --deterministic-mode, without a named attention backend
  std::int64_t optimizer_instances = 1;  ///< groups of ranks that each shard the optimizer
  std::optional<std::int64_t> recompute_layers, vocabulary, expert_tp, expert_ffn;
  std::string unsupported;  ///< a flag whose effect the space does not have; empty: none
};

/// Returns the arguments; nullopt when the record has no Megatron command line.
std::optional<MegatronArguments> megatron_arguments(const RunRecord& record);

/// Applies the command line's changes to an engine's memory: attention whose scores are kept, the padding of the
/// vocabulary, bytes of gradients and optimizer states, GEMM workspaces. With `unfused`, scores are kept whatever the
/// command line has.
void apply_memory_flags(const RunRecord& record, bool unfused, EngineModel& engine);

}  // namespace espalier::runs
