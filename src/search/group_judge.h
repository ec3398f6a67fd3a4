// SPDX-License-Identifier: Apache-2.0
// Judges candidates of one (pp, samples) of the layer-wise space in the simulator, and keeps those that are faster than
// all before.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "search/evaluator.h"
#include "search/group_program.h"
#include "search/layerwise.h"

namespace espalier::search {

/// What solving a group brought.
struct GroupResult {
  std::vector<LayeredCandidate> candidates;  ///< that fit, each faster than the incumbent and those before
  double bound_ns = std::numeric_limits<double>::infinity();
  double priced = 0, kept = 0;
  std::vector<std::uint64_t> simulated;  ///< prints of the plans simulated (plan_prints.h), repeated ones too
  bool complete = true;                  ///< false: stopped, or out of budget
};

/// When to leave off.
struct Patience {
  std::function<bool()> stop;  ///< polled often; may be empty
  std::int64_t budget = 0;     ///< plans simulated; 0: no limit
};

/// What a group is solved with.
struct GroupTools {
  const Problem& problem;
  const Space& space;
  const CostBook& book;
  Evaluator& evaluator;
  int worker = 0;  ///< of the evaluator
  const GroupChoices& group;
  const OptionTable& table;
};

class GroupJudge {
 public:
  /// `incumbent_ns`: what is not below it need not be found.
  GroupJudge(const GroupTools& tools, double incumbent_ns, const Patience& patience)
      : tools_(tools), patience_(patience), best_(incumbent_ns) {}

  /// Stopped or out of budget: nothing more is looked at.
  [[nodiscard]] bool over();
  /// Which overlaps to try: everything that is allowed, and each of them left out.
  [[nodiscard]] std::vector<Overlap> overlaps() const;
  /// Simulates an assignment under each overlap. Returns by how many bytes of tensors each stage exceeds the limit (0:
  /// fits).
  std::vector<std::int64_t> judge(const Schedule& schedule, const Assignment& a, const std::vector<Overlap>& overlaps);
  std::vector<std::int64_t> judge(const Schedule& schedule, const Assignment& a) { return judge(schedule, a, overlaps()); }
  /// The least time of the last call of judge; infinite: nothing fitted.
  [[nodiscard]] double last_ns() const { return last_; }
  [[nodiscard]] const Overlap& last_overlap() const { return last_overlap_; }
  /// Something fitted the devices and not the hosts, which no sum of the program counts.
  [[nodiscard]] bool hosts_lacked() const { return hosts_lacked_; }
  /// What is not below it is not kept.
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
