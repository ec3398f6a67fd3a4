// SPDX-License-Identifier: Apache-2.0
#include "search/phase_context.h"

#include <algorithm>
#include <utility>

#include "base/invariant.h"
#include "plan/engine.h"
#include "search/search.h"

namespace espalier::search {

void merge(PhaseOutcome& found, const PhaseOutcome& other) {
  if (other.best && (!found.best || other.best->iteration_ns < found.best->iteration_ns)) found.best = other.best;
  found.bounded += other.bounded;
  found.simulations += other.simulations;
  found.out_of_memory += other.out_of_memory;
  found.complete = found.complete && other.complete;
  found.interrupted = found.interrupted || other.interrupted;
  found.lower_bound_ns = std::min(found.lower_bound_ns, other.lower_bound_ns);
}

PhaseContext::PhaseContext(const Problem& problem, Evaluator& evaluator, PhaseLimits limits, PhaseOutcome& out)
    : problem_(problem),
      evaluator_(evaluator),
      limits_(std::move(limits)),
      costs_(*problem.model, *problem.cluster, problem.training, *problem.engine),
      out_(out) {}

std::int64_t PhaseContext::best_ns() const {
  const std::int64_t before = limits_.incumbent_ns > 0 ? limits_.incumbent_ns : INT64_MAX;
  return out_.best ? std::min(before, out_.best->iteration_ns) : before;
}

bool PhaseContext::stopped() {
  if (limits_.interrupted && limits_.interrupted()) out_.interrupted = true;
  return out_.interrupted || (limits_.node_limit > 0 && out_.simulations >= limits_.node_limit);
}

Plan PhaseContext::empty_plan() const {
  Plan plan;
  plan.training = problem_.training;
  plan.engine = problem_.engine->name;
  plan.pipelines.clear();
  return plan;
}

PlanEvaluation PhaseContext::simulate(const Plan& plan) {
  ++out_.simulations;
  std::optional<PlanEvaluation> judged = evaluator_.evaluate(problem_, costs_, plan);
  ESPALIER_CHECK(judged.has_value());
  return std::move(*judged);
}

bool PhaseContext::offer(const std::vector<Pipeline>& pipelines, const PlanEvaluation& judged) {
  if (!judged.fits) {
    ++out_.out_of_memory;
    return false;
  }
  if (!out_.best || judged.iteration_ns < out_.best->iteration_ns) out_.best = GroupedCandidate{pipelines, judged.iteration_ns};
  return true;
}

}  // namespace espalier::search
