// SPDX-License-Identifier: Apache-2.0
// Parameters, gradients, master weights and optimizer state of a rank.
//
// An operator has unsplit + ⌈(parameters − unsplit)/tp⌉ elements on a rank, experts have ⌈parameters/(ep·etp)⌉.
// Vocabulary tables are first padded to a multiple of engine.memory.vocabulary_multiple·tp rows. With Ulysses weights
// are replicated over tp. For projections to fewer key/value heads than tp a rank holds one head (key_value.h).
// Trained weights (adapters included) are counted in elements, frozen ones (Operator::frozen) in bytes, as they are
// kept. An adapter's A [in, r] and B [r, out] lie on a rank as their linear does: tp divides B of a column linear,
// and A of a row linear. The other matrix is whole on every rank (PEFT), or divided as well
// (engine.memory.splits_adapters).
//
// F = bytes of frozen weights, sharded as parameters are; D = dense elements, E = expert elements of a stage;
// s = ZeRO shard group, s_e of plan/expert_shard.h. The bytes are
//     parameters   F + p·(D/s + E/s_e if zero = 3 else D + E)
//     gradients    g·(sharded if zero ≥ 2) + autograd·(sharded as the optimizer if 4, whole if 2)
//     optimizer    (master + moments)·(sharded if zero ≥ 1)                  (Rajbhandari et al. 2020, ZeRO)
// An autograd of 4 and more is the optimizer's own: with the optimizer on hosts those bytes lie there. An update there
// also reads gradients of its own (states.host_gradient). Where an engine frees what it has reduced
// (states.frees_reduced), gradients under ZeRO 1 are added up over all micro-batches, reduced once, and take
//     gradients    g·(sharded + whole/v) if every micro-batch of a chunk passes before the next chunk's first
//                  (interleaved, m ≤ p), else g·whole.
//
// Source: Llama Team 2024, arXiv 2407.21783, section 3.3.2 (optimizer states and gradients are sharded, gradients
// accumulated over micro-batches in fp32).
#pragma once

#include <cstdint>

#include "cost/costs.h"
#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"
#include "plan/engine_policies.h"

namespace espalier::cost {

struct ParameterElements {
  std::int64_t dense = 0, expert = 0;                ///< trained elements
  std::int64_t frozen_dense = 0, frozen_expert = 0;  ///< bytes of weights that are not trained
  ParameterElements& operator+=(const ParameterElements& o) {
    dense += o.dense;
    expert += o.expert;
    frozen_dense += o.frozen_dense;
    frozen_expert += o.frozen_expert;
    return *this;
  }
  [[nodiscard]] ParameterElements times(std::int64_t n) const {
    return {dense * n, expert * n, frozen_dense * n, frozen_expert * n};
  }
  bool operator==(const ParameterElements&) const = default;
};
ParameterElements parameters_on_rank(const Model& model, const LayerKind& kind, const EngineModel& engine,
                                     const Training& training, const Strategy& s);
/// Returns the elements of the token table on a rank, which a further stage that uses it holds (plan/shared_table.h);
/// nothing without a vocabulary.
ParameterElements table_elements(const Model& model, const EngineModel& engine, const Training& training, const Strategy& s);

/// Counts the elements on a rank whose gradients the ranks of a tensor group sum once a step, before data-parallel
/// reduction.
struct TensorSync {
  /// Counts weights that every rank holds whole; their gradients are summed over the tp group. A rank applies them to
  /// its own tokens (sp megatron: norms, biases of row linears, routers; Megatron-LM's _allreduce_layernorm_grads).
  /// Or it applies them to its own heads (norms of queries and keys).
  std::int64_t whole = 0;
  std::int64_t key_value = 0;  ///< key/value heads that several ranks hold, summed over those
  std::int64_t holders = 1;    ///< tp/KV ranks that hold the same head
  TensorSync& operator+=(const TensorSync& o) {
    whole += o.whole;
    key_value += o.key_value;
    holders = holders < o.holders ? o.holders : holders;
    return *this;
  }
  [[nodiscard]] TensorSync times(std::int64_t n) const { return {whole * n, key_value * n, holders}; }
  bool operator==(const TensorSync&) const = default;
};
TensorSync tensor_sync(const LayerKind& kind, const EngineModel& engine, const Strategy& s);
/// Returns the vocabulary rows after padding, over all tp ranks.
std::int64_t padded_vocabulary(const Model& model, const EngineModel& engine, std::int32_t weight_tp);

/// Returns the elements of `e` whose gradients other ranks hold as well.
std::int64_t reduced_elements(const ParameterElements& e, const Strategy& s);

/// Return the bytes that a rank holds of a layer that is gathered under ZeRO 3, and of its whole gradient before the
/// scatter.
inline std::int64_t gathered_bytes(const ParameterElements& e, const StatePolicy& states) {
  return (e.dense + e.expert) * states.gather + e.frozen_dense + e.frozen_expert;
}
inline std::int64_t scattered_bytes(const ParameterElements& e, const StatePolicy& states) {
  return (e.dense + e.expert) * states.reduce;
}

/// Counts the elements whose states a rank holds, as a share: divided over shards where the optimizer's states are.
struct OwnElements {
  double trained = 0, frozen = 0;
};
OwnElements own_elements(const ParameterElements& e, const Strategy& s);

/// Returns the number of parts into which the gradients of a stage fall where reduced ones are freed; one part at a
/// time is whole.
inline std::int64_t gradient_parts(const Schedule& schedule) {
  const bool together = schedule.kind == ScheduleKind::interleaved && schedule.microbatches <= schedule.stages;
  return together ? schedule.virtual_stages : 1;
}
/// Stands for a schedule that is not known: gradients are then the least, and no part is whole.
inline constexpr std::int64_t kAnyParts = 0;
/// Returns parameters, gradients and optimizer of a stage that holds `elements`; the other members are left 0.
/// `parts` is gradient_parts of its schedule.
StaticMemory state_memory(const ParameterElements& elements, const StatePolicy& states, const Strategy& s,
                          std::int64_t parts = kAnyParts);

}  // namespace espalier::cost
