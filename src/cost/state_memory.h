// SPDX-License-Identifier: Apache-2.0
// Parameters, gradients, master weights and optimizer state of a rank.
//
// Elements of an operator on a rank: unsplit + ⌈(parameters − unsplit)/tp⌉; vocabulary tables are padded to a multiple
// of engine.memory.vocabulary_multiple·tp rows first; experts: ⌈parameters/(ep·etp)⌉. With Ulysses weights are
// replicated over tp. Of projections to fewer key/value heads than tp a rank holds one head (key_value.h).
// What is trained of them (Operator::frozen, adapters) is counted in elements, what is frozen in bytes, as it is kept.
// An adapter's A [in, r] and B [r, out] lie on a rank as their linear does: of a column linear B is divided over tp, of
// a row linear A; the other one is whole on every rank (PEFT), or divided as well (engine.memory.splits_adapters).
// Bytes, F = those of frozen weights, sharded as parameters are; D = dense elements, E = expert elements of a stage, s
// = ZeRO shard group, s_e of plan/expert_shard.h:
//     parameters   F + p·(D/s + E/s_e if zero = 3 else D + E)          gradients  g·(sharded if zero ≥ 2) + autograd·(sharded as the optimizer if 4, whole if 2)
// An autograd of 4 and more is the optimizer's own: with it on hosts those bytes lie there.
//     optimizer    (master + moments)·(sharded if zero ≥ 1)        (Rajbhandari et al. 2020, ZeRO)
// Where an engine frees what it has reduced (states.frees_reduced), gradients under ZeRO 1 are added up over all
// micro-batches, reduced once, and
//     gradients    g·(sharded + whole/v) if every micro-batch of a chunk passes before the next chunk's first
//                  (interleaved, m ≤ p), else g·whole
// (Llama Team 2024, arXiv 2407.21783, section 3.3.2: optimizer states and gradients are sharded, gradients accumulated
// over micro-batches in fp32).
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
/// Of the token table on a rank: what a further stage that uses it holds (plan/shared_table.h); nothing without a
/// vocabulary.
ParameterElements table_elements(const Model& model, const EngineModel& engine, const Training& training, const Strategy& s);

/// Gradients that are sums of what the ranks of a tensor group have, once a step, before data-parallel reduction:
/// elements on a rank.
struct TensorSync {
  /// Weights that every rank holds whole and applies to its own tokens (sp megatron: norms, biases of row linears,
  /// routers; Megatron-LM's _allreduce_layernorm_grads) or to its own heads (norms of queries and keys): over the tp
  /// group.
  std::int64_t whole = 0;
  std::int64_t key_value = 0;  ///< of key/value heads that several ranks hold, over those
  std::int64_t holders = 1;    ///< tp/KV of them
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
/// Vocabulary rows after padding, over all tp ranks.
std::int64_t padded_vocabulary(const Model& model, const EngineModel& engine, std::int32_t weight_tp);

/// Those of `e` whose gradients other ranks hold too.
std::int64_t reduced_elements(const ParameterElements& e, const Strategy& s);

/// What a rank holds of a layer that is gathered under ZeRO 3, and of its whole gradient before that is scattered.
inline std::int64_t gathered_bytes(const ParameterElements& e, const StatePolicy& states) {
  return (e.dense + e.expert) * states.gather + e.frozen_dense + e.frozen_expert;
}
inline std::int64_t scattered_bytes(const ParameterElements& e, const StatePolicy& states) {
  return (e.dense + e.expert) * states.reduce;
}

/// Elements whose states a rank holds, as a share: divided over shards where the optimizer's states are.
struct OwnElements {
  double trained = 0, frozen = 0;
};
OwnElements own_elements(const ParameterElements& e, const Strategy& s);

/// Into how many parts, one of them whole at a time, the gradients of a stage fall where reduced ones are freed.
inline std::int64_t gradient_parts(const Schedule& schedule) {
  const bool together = schedule.kind == ScheduleKind::interleaved && schedule.microbatches <= schedule.stages;
  return together ? schedule.virtual_stages : 1;
}
/// Of a schedule that is not known: the least, nothing is whole.
inline constexpr std::int64_t kAnyParts = 0;
/// parameters, gradients, optimizer of a stage that holds `elements`; the other fields are left 0. `parts`:
/// gradient_parts of its schedule.
StaticMemory state_memory(const ParameterElements& elements, const StatePolicy& states, const Strategy& s,
                          std::int64_t parts = kAnyParts);

}  // namespace espalier::cost
