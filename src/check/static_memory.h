// SPDX-License-Identifier: Apache-2.0
// Parameters, gradients and optimizer state of a rank of each stage, counted again from the model.
//
// Elements of an operator on a rank, t = tp (1 with Ulysses):
//   dense        unsplit + ⌈(parameters − unsplit)/t⌉
//   vocabulary   (split = vocab, token table or logits) parameters/V · ⌈V/(u·t)⌉·u, with V padded to a multiple of
//                u·t, u = the engine's vocabulary multiple
//   expert       ⌈parameters/(ep·etp)⌉ of expert_linear operators
// Blocks whose operators are partitioned: operator_partition.h.
// Keys and values: of fewer key/value heads than ranks (t > KV) each rank holds one whole head of them, so that the
// part of the projection that computes them is (qk + v)·in (and its bias) on a rank, not KV/t of it.
// Shared table: the embedding's table is held once by every stage that has a layer which uses it: the embedding, the
// head of a model with tied embeddings, the first decoder block of an encoder-decoder model (which looks up the
// decoder's tokens in it, tied head or not). The copies are split and sharded as the embedding layer's strategy says.
// Bytes of a stage with D dense and E expert elements in all its chunks, ZeRO stage z, shard group g,
// S(k) = ⌈D/g⌉ + ⌈E/s_e⌉ if z ≥ k, else D + E:
//   parameter·S(3) + gradient·S(2) + (master + optimizer)·S(1)
// of which the last term lies on the host under offload of the optimizer, and all of it under offload of parameters,
// with the engine's bytes per element; fp32 and tf32 keep parameters and gradients in 4 bytes and no master; sgd keeps
// 4 bytes of momentum. (Rajbhandari et al. 2020, https://arxiv.org/abs/1910.02054)
#pragma once

#include <cstdint>
#include <vector>

#include "check/view.h"

namespace espalier::check {

struct StageElements {
  std::int64_t dense = 0, expert = 0;                ///< elements that are trained, adapters among them
  std::int64_t frozen_dense = 0, frozen_expert = 0;  ///< bytes of weights that are not, before they are sharded
  StageElements& operator+=(const StageElements& o) {
    dense += o.dense;
    expert += o.expert;
    frozen_dense += o.frozen_dense;
    frozen_expert += o.frozen_expert;
    return *this;
  }
};

/// One layer kind on a rank under the view's strategy, before ZeRO.
StageElements elements_of_layer(const View& view, const LayerKind& kind);
/// Bytes per element of each state under the plan's engine, precision and optimizer.
StatePolicy bytes_of(const View& view);
/// Bytes of an element of a weight that is not trained.
double frozen_element_bytes(const View& view, const LayerKind& kind, const Operator& op);
/// The embedding's table on a rank under the view's strategy; nothing without one.
StageElements table_share(const View& view);
/// Its elements, where it is trained.
std::int64_t table_elements(const View& view);
/// The stages, other than the embedding's, that hold a copy of its table, ascending.
std::vector<std::int32_t> table_copies(const View& view);
/// These and the embedding's: the stages that exchange the table's gradient; empty where one stage holds it alone.
std::vector<std::int32_t> table_holders(const View& view);
/// Whether a layer of the chunk looks up or multiplies with the table.
bool uses_table(const View& view, std::size_t chunk);
/// The first layer of the chunk that does; −1: none.
std::int32_t table_user(const View& view, std::size_t chunk);

std::vector<StageElements> elements_per_stage(const View& view);
std::vector<std::int64_t> static_bytes_per_stage(const View& view);
/// What a rank keeps in the memory of its host throughout: states.
std::vector<std::int64_t> host_bytes_per_stage(const View& view);
/// What a rank puts into gradient reduction: elements · reduce bytes; dense (expert) elements count where more than one
/// rank holds the same dense (expert) weights.
std::vector<std::int64_t> gradient_bytes_per_stage(const View& view);

}  // namespace espalier::check
