// SPDX-License-Identifier: Apache-2.0
// Judges candidates of one (pp, samples) of the layer-wise space in the simulator, and keeps those that are faster
// than all before.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "search/evaluator.h"
#include "search/group_program.h"
#include "search/layerwise.h"

namespace espalier::search {

/// Holds the result of solving a group.
struct GroupResult {
  /// Plans that fit, each faster than the incumbent and the previous ones.
  std::vector<LayeredCandidate> candidates;
  double bound_ns = std::numeric_limits<double>::infinity();
  double priced = 0, kept = 0;
  std::vector<std::uint64_t> simulated;  ///< prints of the simulated plans (plan_prints.h), with repetitions
  bool complete = true;                  ///< false: stopped, or out of budget
};

/// Decides when to stop.
struct Patience {
  std::function<bool()> stop;  ///< polled often; may be empty
  std::int64_t budget = 0;     ///< limit on simulated plans; 0: no limit
};

/// Holds the inputs for solving a group.
struct GroupTools {
  const Problem& problem;
  const Space& space;
  const CostBook& book;
  Evaluator& evaluator;
  int worker = 0;  ///< worker index for the evaluator
  const GroupChoices& group;
  const OptionTable& table;
};

class GroupJudge {
 public:
  /// Plans that are not faster than `incumbent_ns` need not be found.
  GroupJudge(const GroupTools& tools, double incumbent_ns, const Patience& patience)
      : tools_(tools), patience_(patience), best_(incumbent_ns) {}

  /// Returns true when stopped or out of budget; no further plans are tried.
  [[nodiscard]] bool over();
  /// Returns the overlaps to try: all that are allowed, and each with one of them left out.
  [[nodiscard]] std::vector<Overlap> overlaps() const;
  /// Simulates an assignment under each overlap. Returns by how many bytes of tensors each stage exceeds the limit
  /// (0: fits).
  std::vector<std::int64_t> judge(const Schedule& schedule, const Assignment& a, const std::vector<Overlap>& overlaps);
  std::vector<std::int64_t> judge(const Schedule& schedule, const Assignment& a) { return judge(schedule, a, overlaps()); }
  /// Returns the least time of the last call of judge; infinity if nothing fitted.
  [[nodiscard]] double last_ns() const { return last_; }
  [[nodiscard]] const Overlap& last_overlap() const { return last_overlap_; }
  /// Returns whether some plan fitted the devices but not the host memory, which no sum of the program counts.
  [[nodiscard]] bool hosts_lacked() const { return hosts_lacked_; }
  /// Returns the time that a plan must beat to be kept.
  [[nodiscard]] double best_ns() const { return best_; }
  void set_best(double ns) { best_ = ns; }
  [[nodiscard]] const GroupTools& tools() const { return tools_; }
  [[nodiscard]] GroupResult& result() { return result_; }

 private:
  std::vector<std::int64_t> excess_bytes(const ProgramStructure& structure, const cost::Costs& costs);

  GroupTools tools_;
  const Patience& patience_;
  double best_, last_ = std::numeric_limits<double>::infinity();
  Overlap last_overlap_;
  bool hosts_lacked_ = false;
  GroupResult result_;
};

}  // namespace espalier::search
