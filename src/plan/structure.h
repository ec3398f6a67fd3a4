// SPDX-License-Identifier: Apache-2.0
// The structure of a program: everything that decides which instructions a plan has and in which order, and nothing of
// what they take. Two configurations of equal structure share one instruction list; the search lowers it once and
// prices it for each.
//
//   reduce_gradients    data_ranks > 1 and the shard group does not reduce per micro-batch (ZeRO ≤ 1) or has replicas
//                       (ZeRO ≥ 2 with shard < data_ranks); or experts with replicas under ZeRO ≤ 1
//   gather_parameters   ZeRO 1 and 2: parameters are whole during the step and gathered once after the update
//   table_chunks        copies of a shared, trained token table on different stages (zb-v: stage 0 holds embedding and
//                       head)
//   buckets             of a chunk: its layers (at most kMaxBuckets) when reduction or gathering runs beside compute,
//                       else 1
//
// The structure also numbers what instructions name, so that costs lie in columns beside the program (cost/costs.h).
// With C = p·v chunks:
//   works         chunk after chunk: forward, backward; or forward, backward_input, backward_weight where the schedule
//                 splits the backward.
//                 Then the optimizer of each stage.
//   collectives   grad_reduce of each chunk if there is one, param_gather of each chunk if there is one, the one
//                 tied_reduce of all copies
//   transfers     of each chunk c ≥ 1: the activation that enters it, and the gradient that leaves it
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/instruction.h"
#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/ids.h"

namespace espalier {

inline constexpr int kMaxBuckets = 32;  ///< of a chunk, at most

struct ProgramStructure {
  Schedule schedule;
  base::IndexedVector<ChunkId, std::uint8_t> buckets;  ///< into how many its gradients and parameters are cut (≥ 1)
  bool reduce_gradients = false;                       ///< grad_reduce at the end (data_ranks > 1, and not per
                                                       ///< micro-batch)
  bool overlap_reduce = false;
  bool gather_parameters = false;  ///< param_gather once a step (ZeRO 1, 2)
  bool overlap_gather = false;     ///< at the beginning, beside the first forward; otherwise after the optimizer
  bool overlap_p2p = false;
  /// Chunks whose stages exchange gradients of their copies of a token table, one a stage (plan/shared_table.h); empty:
  /// none, or a frozen one.
  std::vector<ChunkId> table_chunks;
  bool operator==(const ProgramStructure&) const = default;

  [[nodiscard]] std::int32_t chunks() const { return schedule.chunks(); }
  /// Works of a chunk: 2, or 3 where the backward is split.
  [[nodiscard]] std::int32_t phases() const { return splits_backward(schedule.kind) ? 3 : 2; }
  [[nodiscard]] std::int32_t works() const { return phases() * chunks() + schedule.stages; }
  [[nodiscard]] WorkId forward(ChunkId chunk) const { return WorkId(phases() * chunk.value); }
  /// The part of the backward that the chunk before waits for: all of it, or the gradient of the input.
  [[nodiscard]] WorkId backward(ChunkId chunk) const { return WorkId(phases() * chunk.value + 1); }
  /// The part of the backward after which the gradients of weights are complete.
  [[nodiscard]] WorkId backward_weight(ChunkId chunk) const { return WorkId(phases() * (chunk.value + 1) - 1); }
  [[nodiscard]] WorkId optimizer(StageId stage) const { return WorkId(phases() * chunks() + stage.value); }
  /// Of the kind of a pass over a chunk.
  [[nodiscard]] WorkId work(InstructionKind pass, ChunkId chunk) const;

  [[nodiscard]] std::int32_t collectives() const {
    return chunks() * ((reduce_gradients ? 1 : 0) + (gather_parameters ? 1 : 0)) + (table_chunks.empty() ? 0 : 1);
  }
  [[nodiscard]] CollectiveId grad_reduce(ChunkId chunk) const { return CollectiveId(chunk.value); }
  [[nodiscard]] CollectiveId param_gather(ChunkId chunk) const {
    return CollectiveId((reduce_gradients ? chunks() : 0) + chunk.value);
  }
  [[nodiscard]] CollectiveId tied_reduce() const { return CollectiveId(collectives() - 1); }
  [[nodiscard]] std::int32_t transfers() const { return 2 * (chunks() - 1); }
  /// The activation that enters `chunk`, or (gradient) the gradient of it that goes back.
  [[nodiscard]] TransferId transfer(ChunkId chunk, bool gradient) const {
    return TransferId(2 * (chunk.value - 1) + (gradient ? 1 : 0));
  }
};

bool has_experts(const Model& model);
/// Whether gradients are reduced once a step under a strategy; `experts`: the model has some.
bool reduces_gradients(bool experts, const Strategy& s);
/// Whether parameters are gathered once a step under a strategy.
inline bool gathers_parameters(const Strategy& s) { return s.shards_optimizer() && !s.shards_parameters(); }

/// The structure of one strategy for all layers. `layers[c]` = layers of pipeline chunk c. Reuses the memory of `out`.
void structure_of(const Model& model, const Strategy& strategy, const Schedule& schedule, const std::vector<std::int32_t>& layers,
                  ProgramStructure& out);

/// The same of a plan whose layers have strategies of their own: a collective is there when any strategy needs it.
void structure_of(const Model& model, const std::vector<const Strategy*>& strategies, const Schedule& schedule,
                  const std::vector<std::int32_t>& layers, ProgramStructure& out);

ProgramStructure structure_of(const Pipeline& pipeline, const Model& model);

}  // namespace espalier
