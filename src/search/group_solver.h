// SPDX-License-Identifier: Apache-2.0
// Solves one (pp, samples) of the layer-wise space: candidates that are simulated, and a lower bound of everything in it.
//
//   1f1b, zb-h1           the partition and the strategies together (group_program.h); zb-h1 with ZeRO ≤ 1 and backward in two parts
//   interleaved, zb-v     chunks by the balanced split of plan/split.h, the strategies of a stage's layers by layer_search.h with
//                         the micro-batch passes a stage holds; bound: the most loaded stage, its way there included
// Where embedding and head share a table (rule tied-table) the bound lets each have it as it likes, and plans are looked for with the layout
// that is best for both at the prices of memory found then; refine tries the others.
// gpipe holds more than 1f1b at the same time and is left to the uniform space.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "search/evaluator.h"
#include "search/group_program.h"
#include "search/layerwise.h"
#include "search/virtual_program.h"

namespace espalier::search {

/// What solving a group brought.
struct GroupResult {
  std::vector<LayeredCandidate> candidates;  ///< that fit, each faster than the incumbent and those before
  double bound_ns = std::numeric_limits<double>::infinity();
  double priced = 0, kept = 0;
  std::int64_t simulations = 0;
};

class GroupSolver {
 public:
  /// `incumbent_ns`: what is not below it need not be found. `worker` of the evaluator.
  GroupSolver(const Problem& problem, const CostBook& book, Evaluator& evaluator, int worker, const Group& group,
              const OptionTable& table, double incumbent_ns, const std::function<bool()>& stop)
      : problem_(problem),
        book_(book),
        evaluator_(evaluator),
        worker_(worker),
        group_(group),
        table_(table),
        stop_(stop),
        best_(incumbent_ns) {}

  GroupResult run();
  /// Partitions of one-forward-one-backward, each with the strategies that are best for it, simulated.
  /// What was simulated on the way goes to `looked`.
  BalanceReport balance(const LayeredCandidate& answer, GroupResult& looked);
  /// Plans that differ from `start` in the strategy of single layers, while they are faster.
  GroupResult refine(const LayeredCandidate& start);

 private:
  [[nodiscard]] bool interrupted() const { return stop_ && stop_(); }
  [[nodiscard]] bool admits(ScheduleKind kind) const;
  double solve_kind(ScheduleKind kind);
  double solve_plain(GroupProgram& program, ScheduleKind kind, const Mode& mode);
  double solve_virtual(VirtualProgram stages);
  /// `now` with another strategy of one layer; of a layer whose table another layer shares, with what that may have then.
  [[nodiscard]] std::vector<Assignment> changed(const Assignment& now, std::size_t layer, const PricedOption& option) const;
  std::vector<std::int64_t> judge(const Schedule& schedule, const Assignment& a);
  std::vector<std::int64_t> judge(const Schedule& schedule, const Assignment& a, const std::vector<Overlap>& overlaps);
  std::vector<std::int64_t> excess_bytes(const Lowering& lowering, const cost::PlanTiming& timing);
  [[nodiscard]] std::vector<Overlap> overlaps() const;
  std::vector<std::int32_t> polish(const GroupProgram& program, const BalanceReport& report);
  std::int64_t simulate(GroupProgram program, const std::vector<std::int32_t>& first);

  const Problem& problem_;
  const CostBook& book_;
  Evaluator& evaluator_;
  int worker_;
  const Group& group_;
  const OptionTable& table_;
  const std::function<bool()>& stop_;  ///< polled often; may be empty
  double best_;                        ///< what is not below it is not kept
  GroupResult result_;
};

}  // namespace espalier::search
