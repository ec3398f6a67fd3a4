// SPDX-License-Identifier: Apache-2.0
// Solves one (pp, samples) of the layer-wise space: finds candidates to simulate, and a lower bound of everything in
// it.
//
// Each schedule has its own method:
// - 1f1b, zb-h1: the partition and the strategies are chosen together (group_program.h). zb-h1 requires ZeRO ≤ 1 and
//   the backward pass in two parts.
// - gpipe: it is solved like 1f1b where the job leaves 1f1b out. Otherwise 1f1b replaces it, as it holds fewer
//   activations at the same time.
// - interleaved, zb-v: layer_search.h chooses the strategies of a stage's layers with the micro-batch passes that the
//   stage holds. The balanced split of plan/split.h decides the chunks; then the boundaries between chunks move
//   (layer_refinement.h). The bound covers every split (chunk_bound.h).
// Embedding and head may share a table (rule tied-table). The bound then lets each have its own layout. Plans are
// searched with the layout that is best for both at the memory prices found there; the refinement tries the others.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "search/chunk_bound.h"
#include "search/group_judge.h"
#include "search/group_program.h"
#include "search/layer_refinement.h"
#include "search/layerwise.h"
#include "search/virtual_program.h"

namespace espalier::search {

class GroupSolver {
 public:
  /// Plans that are not faster than `incumbent_ns` need not be found.
  GroupSolver(const GroupTools& tools, double incumbent_ns, const Patience& patience) : judge_(tools, incumbent_ns, patience) {}

  GroupResult run();
  /// Applies single changes to `start` as long as they make it faster.
  GroupResult refine(const LayeredCandidate& start, LayerRefinement::Depth depth, std::int64_t budget, Refinement& done);

 private:
  [[nodiscard]] const GroupTools& tools() const { return judge_.tools(); }
  [[nodiscard]] bool admits(ScheduleKind kind) const;
  [[nodiscard]] GroupProgram program_of(ScheduleKind kind) const;
  double solve_plain(ScheduleKind kind);
  double solve_plain(GroupProgram& program, ScheduleKind kind, const Mode& mode);
  [[nodiscard]] solve::StageOracle watched(solve::StageOracle oracle);
  /// Tries one strategy for all layers, each in turn, if the host memory suffices for no plan found.
  void solve_for_hosts();
  void solve_chunked(ScheduleKind kind);
  void solve_chunked(VirtualProgram stages);
  void balance(const Schedule& schedule, const Assignment& a);
  [[nodiscard]] double bound_of_every_split(const GroupProgram& program, const Schedule& schedule,
                                            const ChunkOrders& orders) const;
  [[nodiscard]] double bound_by_stage_memory(const GroupProgram& program, const Schedule& schedule,
                                             const ChunkOrders& orders) const;

  GroupJudge judge_;
};

}  // namespace espalier::search
