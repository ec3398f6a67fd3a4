// SPDX-License-Identifier: Apache-2.0
// Defines the structure of a program: everything that decides which instructions a plan has and in which order, but
// not their costs. Two configurations of equal structure share one instruction list. The search lowers it once and
// prices it for each.
//
//   reduce_gradients    data_ranks > 1, and the shard group does not reduce per micro-batch (ZeRO ≤ 1)
//                       or has replicas (ZeRO ≥ 2 with shard < data_ranks);
//                       or experts with replicas under ZeRO ≤ 1
//   gather_parameters   ZeRO 1 and 2: parameters are whole during the step and gathered once after the update
//   table_chunks        copies of a shared, trained token table on different stages
//                       (zb-v: stage 0 holds embedding and head)
//   buckets             of a chunk: its layers (at most kMaxBuckets) if reduction or gathering overlaps
//                       with compute, else 1.
//
// The structure also numbers the operands of instructions, so that costs can be stored in columns outside the program
// (cost/costs.h). With C = p·v chunks:
//   works         chunk after chunk: forward, backward; or forward, backward_input, backward_weight
//                 if the schedule splits the backward. Then the optimizer of each stage.
//   collectives   grad_reduce of each chunk if there is one, param_gather of each chunk if there is one,
//                 and the one tied_reduce of all copies
//   transfers     of each chunk c ≥ 1: the activation that enters it, and the gradient that leaves it
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/instruction.h"
#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/ids.h"

namespace espalier {

inline constexpr int kMaxBuckets = 32;  ///< limit for one chunk

struct ProgramStructure {
  Schedule schedule;
  base::IndexedVector<ChunkId, std::uint8_t> buckets;  ///< pieces into which its gradients and parameters are cut (≥ 1)
  bool reduce_gradients = false;                       ///< grad_reduce at the end (data_ranks > 1, and not per micro-batch)
  bool overlap_reduce = false;
  bool gather_parameters = false;  ///< param_gather once a step (ZeRO 1, 2)
  bool overlap_gather = false;     ///< during the first forward; otherwise after the optimizer
  bool overlap_p2p = false;
  /// Lists the chunks whose stages exchange gradients of their copies of a token table, one per stage
  /// (plan/shared_table.h). It is empty without copies, or if the table is frozen.
  std::vector<ChunkId> table_chunks;
  bool operator==(const ProgramStructure&) const = default;

  [[nodiscard]] std::int32_t chunks() const { return schedule.chunks(); }
  /// Counts the works of a chunk: 2, or 3 if the backward is split.
  [[nodiscard]] std::int32_t phases() const { return splits_backward(schedule.kind) ? 3 : 2; }
  [[nodiscard]] std::int32_t works() const { return phases() * chunks() + schedule.stages; }
  [[nodiscard]] WorkId forward(ChunkId chunk) const { return WorkId(phases() * chunk.value); }
  /// Returns the part of the backward that the chunk before waits for: all of it, or the gradient of the input.
  [[nodiscard]] WorkId backward(ChunkId chunk) const { return WorkId(phases() * chunk.value + 1); }
  /// Returns the part of the backward after which the gradients of weights are complete.
  [[nodiscard]] WorkId backward_weight(ChunkId chunk) const { return WorkId(phases() * (chunk.value + 1) - 1); }
  [[nodiscard]] WorkId optimizer(StageId stage) const { return WorkId(phases() * chunks() + stage.value); }
  /// Returns the work of a kind of pass over a chunk.
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
  /// Returns the transfer of the activation that enters `chunk`, or (gradient) of its gradient back.
  [[nodiscard]] TransferId transfer(ChunkId chunk, bool gradient) const {
    return TransferId(2 * (chunk.value - 1) + (gradient ? 1 : 0));
  }
};

bool has_experts(const Model& model);
/// Returns whether a strategy reduces gradients once per step; `experts`: the model has some.
bool reduces_gradients(bool experts, const Strategy& s);
/// Returns whether a strategy gathers parameters once per step.
inline bool gathers_parameters(const Strategy& s) { return s.shards_optimizer() && !s.shards_parameters(); }

/// Writes the structure of one strategy for all layers into `out`, whose memory it reuses. `layers[c]` counts the
/// layers of pipeline chunk c.
void structure_of(const Model& model, const Strategy& strategy, const Schedule& schedule, const std::vector<std::int32_t>& layers,
                  ProgramStructure& out);

/// Writes the structure of a plan whose layers have different strategies: a collective exists if any strategy needs it.
void structure_of(const Model& model, const std::vector<const Strategy*>& strategies, const Schedule& schedule,
                  const std::vector<std::int32_t>& layers, ProgramStructure& out);

ProgramStructure structure_of(const Pipeline& pipeline, const Model& model);

}  // namespace espalier
