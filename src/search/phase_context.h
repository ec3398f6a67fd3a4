// SPDX-License-Identifier: Apache-2.0
// Holds the inputs of the search of a phase on node groups: the problem, the judge of plans, the limits and the
// incumbent.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "cost/cluster_costs.h"
#include "search/evaluator.h"
#include "search/phase_outcome.h"

namespace espalier::search {

/// Limits of a phase.
struct PhaseLimits {
  std::int64_t incumbent_ns = 0;  ///< the best plan of earlier phases; 0: none
  std::int64_t node_limit = 0;    ///< simulated plans; 0: no limit
  /// Polled often, from any thread; once true it stays so. May be empty.
  std::function<bool()> interrupted;
};

/// Judges plans for one phase, counts them, and keeps the best. Not for several threads.
class PhaseContext {
 public:
  /// All arguments outlive the context. The context writes `best`, `simulations`, `out_of_memory` and `interrupted` of
  /// `out`; the phase writes the rest.
  PhaseContext(const Problem& problem, Evaluator& evaluator, PhaseLimits limits, PhaseOutcome& out);

  [[nodiscard]] const cost::ClusterCosts& costs() const { return costs_; }
  /// Returns the time of the best plan of this phase and of those before it; INT64_MAX: none fits.
  [[nodiscard]] std::int64_t best_ns() const;
  /// Returns whether the phase has to end: it was interrupted, or its limit of simulations is reached.
  bool stopped();
  /// Returns a plan without pipelines, with the training and the engine of the problem.
  [[nodiscard]] Plan empty_plan() const;
  /// Times a plan under the judge and counts it. The plan must be legal.
  PlanEvaluation simulate(const Plan& plan);
  /// Keeps a simulated plan if it fits and is the fastest of the phase. Returns whether it fits.
  bool offer(const std::vector<Pipeline>& pipelines, const PlanEvaluation& judged);

 private:
  const Problem& problem_;
  Evaluator& evaluator_;
  const PhaseLimits limits_;
  const cost::ClusterCosts costs_;
  PhaseOutcome& out_;
};

}  // namespace espalier::search
