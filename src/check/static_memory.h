// SPDX-License-Identifier: Apache-2.0
// Parameters, gradients and optimizer state of a rank of each stage, counted again from the model.
//
// Elements of an operator on a rank, t = tp (1 with Ulysses):
//   dense        unsplit + ⌈(parameters − unsplit)/t⌉
//   vocabulary   (split = vocab, token table or logits) parameters/V · ⌈V/(u·t)⌉·u, with V padded to a multiple of
//                u·t, u = the engine's vocabulary multiple
//   expert       ⌈parameters/(ep·etp)⌉ of expert_linear operators
// Blocks whose operators are partitioned: operator_partition.h.
// Tied embeddings: where head and embedding lie on different stages, the head's stage holds its own copy of the table.
// Bytes of a stage with D dense and E expert elements in all its chunks, ZeRO stage z, shard group g,
// S(k) = ⌈D/g⌉ + ⌈E/gcd(g, expert data ranks)⌉ if z ≥ k, else D + E:
//   parameter·S(3) + gradient·S(2) + (master + optimizer)·S(1)
// with the engine's bytes per element; fp32 and tf32 keep parameters and gradients in 4 bytes and no master; sgd keeps 4 bytes
// of momentum. (Rajbhandari et al. 2020, https://arxiv.org/abs/1910.02054)
#pragma once

#include <cstdint>
#include <vector>

#include "check/view.h"

namespace espalier::check {

struct StageElements {
  std::int64_t dense = 0, expert = 0;
};

std::vector<StageElements> elements_per_stage(const View& view);
std::vector<std::int64_t> static_bytes_per_stage(const View& view);
/// What a rank puts into gradient reduction: elements · reduce bytes; dense (expert) elements count where more than one rank
/// holds the same dense (expert) weights.
std::vector<std::int64_t> gradient_bytes_per_stage(const View& view);

}  // namespace espalier::check
