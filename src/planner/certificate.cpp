// SPDX-License-Identifier: Apache-2.0
#include "planner/certificate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "plan/engine.h"
#include "plan/layer_freedom.h"
#include "planner/memory_margin.h"

namespace espalier::planner {
namespace {

/// Returns the counters of the uniform space.
SearchSummary counters_of(const search::Outcome& found) {
  SearchSummary s;
  s.space_size = found.space_size;
  s.by_dimension = found.by_dimension;
  s.bounded = found.bounded;
  s.simulated = found.simulations;
  s.lowered = found.lowered;
  s.pruned = found.pruning.counters();
  return s;
}

/// Describes how uniform plans assign their layers to stages, if there is a pipeline.
std::string split_of(const search::Outcome& flat, const EngineModel& engine, bool layerwise) {
  const auto pp = flat.by_dimension.find("pp");
  if (pp == flat.by_dimension.end() || pp->second.empty() || pp->second.rbegin()->first < 2) return "";
  const char* policy = engine.split == SplitPolicy::balanced      ? "balanced"
                       : engine.split == SplitPolicy::even_blocks ? "even blocks"
                                                                  : "cumulative";
  const std::string uniform = std::string("by policy (") + policy + "), not searched";
  return layerwise ? "searched; in uniform plans " + uniform : uniform;
}

/// Describes the part of the requested space that an engine with rules leaves. Empty: all of it, or the job
/// requests uniform plans.
std::string freedom_of(const Job& job, const EngineModel& engine) {
  if (job.search.kind == SpaceKind::uniform || is_unrestricted(engine.layers)) return "";
  return to_string(engine.layers);
}

SearchRequest request_of(const Question& q) {
  const PlannerOptions& options = q.options;
  const bool limited = options.node_limit.value_or(0) > 0;
  SearchRequest asked{q.job.search, limited ? options.node_limit : std::nullopt, options.disabled_rules, options.exhaustive,
                      options.alternatives};
  asked.left_out_phases = options.left_out_phases;
  asked.simple = options.simple;
  asked.engines = options.engines;
  asked.restriction = options.restriction;
  asked.simple_within = options.simple_within;
  asked.engine_options = options.engine_options;
  return asked;
}

/// Restates the certificate for a plan that may be slower than the fastest.
void restate(SearchSummary& s, std::int64_t iteration_ns) {
  s.optimal = s.optimal && s.lower_bound_ns == iteration_ns;
  s.gap = static_cast<double>(iteration_ns - s.lower_bound_ns) / static_cast<double>(iteration_ns);
  if (s.reason == SearchEnd::optimal && !s.optimal) s.reason = SearchEnd::gap;
}

}  // namespace

SearchSummary certificate_of(const Question& q, const search::SearchResult& all, const Choice& choice) {
  const Job& job = q.job;
  const EngineModel& engine = *q.engine;
  SearchSummary s = counters_of(all.flat());
  s.space = job.search.kind;
  const MemoryMargin margin = memory_margin_of(job);
  s.memory_margin = margin.share;
  s.memory_margin_basis = margin.basis;
  s.split = split_of(all.flat(), engine, all.last() != nullptr);
  s.freedom = freedom_of(job, engine);
  s.phases = all.phases;
  if (const search::LayerwiseOutcome* layers = all.last())
    for (const auto& row : layers->balance.rows)
      s.balance.push_back({row.name, row.first, row.alpha_t, row.alpha_m, row.iteration_ns});
  const std::int64_t best = all.best_ns();
  s.lower_bound_ns = all.lower_bound_ns();
  s.gap = static_cast<double>(best - s.lower_bound_ns) / static_cast<double>(best);
  s.optimal = s.lower_bound_ns == best && all.complete();
  s.reason = s.optimal        ? SearchEnd::optimal
             : all.complete() ? SearchEnd::gap
             : all.left_out() ? SearchEnd::phase_left_out
                              : SearchEnd::node_limit;
  if (all.interrupted()) s.reason = q.watch.reason();
  s.asked = request_of(q);
  restate(s, choice.iteration_ns());
  if (choice.simple && !choice.simplest->certified && searched(q.watch.reason())) s.reason = q.watch.reason();
  return s;
}

}  // namespace espalier::planner
