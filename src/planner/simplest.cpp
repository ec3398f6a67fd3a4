// SPDX-License-Identifier: Apache-2.0
#include "planner/simplest.h"

#include <algorithm>
#include <cmath>

#include "plan/dimensions_used.h"
#include "plan/engine.h"
#include "planner/prediction.h"

namespace espalier::planner {
namespace {

std::int64_t slowest_of(const SimplestQuestion& q) {
  return static_cast<std::int64_t>(std::floor(static_cast<double>(q.best_ns) * (1.0 + q.within)));
}

/// Returns the preferred candidate that the search simulated: an interrupted search can offer nothing else.
std::optional<search::Candidate> preferred(const std::vector<search::Candidate>& simulated,
                                           const search::Preference& preference) {
  std::optional<search::Candidate> best;
  for (const search::Candidate& c : simulated) {
    const std::int64_t rank = preference.rank(c.configuration, c.iteration_ns);
    if (rank == INT64_MAX) continue;
    if (!best || rank < preference.rank(best->configuration, best->iteration_ns)) best = c;
  }
  return best;
}

}  // namespace

Simplest simplest_plan(const Job& job, const EngineModel& engine, const search::Problem& problem, search::Evaluator& evaluator,
                       search::Options how, const SimplestQuestion& q) {
  Simplest out;
  out.within = q.within;
  out.plan = *q.answer;
  out.iteration_ns = q.best_ns;
  out.dimensions = dimensions_used(*q.answer);
  how.preference = search::Preference{slowest_of(q)};
  how.pruning = {};
  if (how.progress) how.progress({"simplest", 0, 0, "searching for the simplest plan of similar speed", 0, 0});
  how.progress = nullptr;
  how.keep_within = 0;
  how.known = &q.found->known;
  how.seeds.clear();
  const auto found = preferred(q.found->simulated, *how.preference);
  if (found) how.seeds.push_back(found->configuration);
  std::optional<search::Candidate> uniform = found;
  if (q.found->complete) {
    const search::Outcome searched = search::branch_and_bound(problem, evaluator, how);
    out.simulated = searched.simulations;
    out.certified = searched.complete;
    if (searched.best) uniform = searched.best;
  }
  if (uniform) {
    const search::Configuration& c = uniform->configuration;
    const std::int32_t dimensions = dimensions_used(c.strategy, c.schedule);
    if (dimensions < out.dimensions || (dimensions == out.dimensions && uniform->iteration_ns < out.iteration_ns)) {
      out.plan = document_of(job, engine, c.strategy, c.schedule);
      out.iteration_ns = uniform->iteration_ns;
      out.dimensions = dimensions;
    }
  }
  out.label = out.plan->label();
  out.loss = static_cast<double>(out.iteration_ns) / static_cast<double>(q.best_ns) - 1;
  return out;
}

}  // namespace espalier::planner
