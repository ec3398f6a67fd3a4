// SPDX-License-Identifier: Apache-2.0
// Solves one (pp, samples) of the layer-wise space: candidates that are simulated, and a lower bound of everything in
// it.
//
//   1f1b, zb-h1           the partition and the strategies together (group_program.h); zb-h1 with ZeRO ≤ 1 and backward
//                         in two parts
//   gpipe                 the same where the job leaves 1f1b out; otherwise 1f1b, which holds less at the same time,
//                         stands for it
//   interleaved, zb-v     the strategies of a stage's layers by layer_search.h with the micro-batch passes a stage
//                         holds, chunks by the
//                         balanced split of plan/split.h; then boundaries between chunks move (layer_refinement.h).
//                         Bound: of every split (chunk_bound.h)
// Where embedding and head share a table (rule tied-table) the bound lets each have it as it likes, and plans are
// looked for with the layout that is best for both at the prices of memory found then; the refinement tries the others.
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
  /// `incumbent_ns`: what is not below it need not be found.
  GroupSolver(const GroupTools& tools, double incumbent_ns, const Patience& patience) : judge_(tools, incumbent_ns, patience) {}

  GroupResult run();
  /// Plans that differ from `start` by single changes, while they are faster.
  GroupResult refine(const LayeredCandidate& start, LayerRefinement::Depth depth, std::int64_t budget, Refinement& done);

 private:
  [[nodiscard]] const GroupTools& tools() const { return judge_.tools(); }
  [[nodiscard]] bool admits(ScheduleKind kind) const;
  [[nodiscard]] GroupProgram program_of(ScheduleKind kind) const;
  double solve_plain(ScheduleKind kind);
  double solve_plain(GroupProgram& program, ScheduleKind kind, const Mode& mode);
  [[nodiscard]] solve::StageOracle watched(solve::StageOracle oracle);
  /// Where hosts hold nothing that was found: one strategy for all layers, each in turn.
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
