// SPDX-License-Identifier: Apache-2.0
// Counts parameters, gradients and optimizer state of a rank of each stage again from the model.
//
// Elements of an operator on a rank, t = tp (1 with Ulysses):
//   dense        unsplit + ⌈(parameters − unsplit)/t⌉
//   vocabulary   (split = vocab, token table or logits) parameters/V · ⌈V/(u·t)⌉·u, with V padded to a multiple of
//                u·t, u = the engine's vocabulary multiple
//   expert       ⌈parameters/(ep·etp)⌉ of expert_linear operators
// partition_text.h covers blocks whose operators are partitioned.
//
// Keys and values: with fewer key/value heads than ranks (t > KV) each rank holds one whole head. The part of the
// projection that computes them is then (qk + v)·in (and its bias) on a rank, not KV/t of it.
//
// Shared table: every stage that has a layer which uses the embedding's table holds it once. Such layers are the
// embedding, and the head of a model with tied embeddings. The first decoder block of an encoder-decoder model looks
// up the decoder's tokens in it, tied head or not. The copies are split and sharded as the embedding layer's strategy
// defines.
//
// A stage has D dense and E expert elements in all its chunks, ZeRO stage z and shard group g. Its bytes are
//   parameter·S(3) + gradient·S(2) + (master + optimizer)·S(1), S(k) = ⌈D/g⌉ + ⌈E/s_e⌉ if z ≥ k, else D + E.
//
// Under offload of the optimizer the last term is on the host, under offload of parameters all of it. Bytes per
// element are the engine's. fp32 and tf32 keep parameters and gradients in 4 bytes and no master; sgd keeps 4 bytes
// of momentum. (Rajbhandari et al. 2020, https://arxiv.org/abs/1910.02054)
#pragma once

#include <cstdint>
#include <vector>

#include "check/view.h"

namespace espalier::check {

struct StageElements {
  std::int64_t dense = 0, expert = 0;                ///< trained elements, including adapters
  std::int64_t frozen_dense = 0, frozen_expert = 0;  ///< bytes of frozen weights, before they are sharded
  StageElements& operator+=(const StageElements& o) {
    dense += o.dense;
    expert += o.expert;
    frozen_dense += o.frozen_dense;
    frozen_expert += o.frozen_expert;
    return *this;
  }
};

/// Returns the elements of one layer kind on a rank under the view's strategy, before ZeRO.
StageElements elements_of_layer(const View& view, const LayerKind& kind);
/// Returns the bytes per element of each state under the plan's engine, precision and optimizer.
StatePolicy bytes_of(const View& view);
/// Returns the bytes of an element of a frozen weight.
double frozen_element_bytes(const View& view, const LayerKind& kind, const Operator& op);
/// Returns the embedding's table on a rank under the view's strategy; nothing if the model has none.
StageElements table_share(const View& view);
/// Returns the elements of the table if it is trained.
std::int64_t table_elements(const View& view);
/// Returns the stages, other than the embedding's, that hold a copy of its table, in ascending order.
std::vector<std::int32_t> table_copies(const View& view);
/// Returns these and the embedding's stage, which exchange the table's gradient; empty if one stage holds it alone.
std::vector<std::int32_t> table_holders(const View& view);
/// Returns whether a layer of the chunk uses the table for look-ups or as a matrix.
bool uses_table(const View& view, std::size_t chunk);
/// Returns the first layer of the chunk that uses the table; −1 if there is none.
std::int32_t table_user(const View& view, std::size_t chunk);

std::vector<StageElements> elements_per_stage(const View& view);
std::vector<std::int64_t> static_bytes_per_stage(const View& view);
/// Returns the bytes of states that a rank keeps in the memory of its host throughout.
std::vector<std::int64_t> host_bytes_per_stage(const View& view);
/// Returns the bytes that a rank reduces: gradient elements · reduce bytes. Dense (expert) elements count if several
/// ranks hold the same dense (expert) weights.
std::vector<std::int64_t> gradient_bytes_per_stage(const View& view);

}  // namespace espalier::check
