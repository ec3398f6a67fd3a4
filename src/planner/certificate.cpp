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

void add_partitions(const search::SearchResult& all, SearchSummary& s) {
  PartitionSummary sum;
  sum.without_ns = all.best_without_partitions_ns();
  sum.solved = all.choices.solved;
  sum.certified = all.choices.certified;
  sum.groups = static_cast<std::int64_t>(all.choices.offers.size());
  for (const auto& [key, offer] : all.choices.offers) sum.offered += static_cast<std::int64_t>(offer.partitions.size());
  sum.lower_bound_ns = all.both ? all.choices.layered_lower_bound_ns : all.choices.lower_bound_ns;
  s.partitions = sum;
}

void add_layers(const search::SearchResult& all, SearchSummary& s) {
  const search::LayerwiseOutcome& last = *all.last();
  LayerwiseSummary l;
  l.uniform_ns = all.uniform.best ? all.uniform.best->iteration_ns : 0;
  l.strategies = last.strategies;
  l.kept = last.leaves;
  l.outer = last.outer;
  l.solved = last.solved;
  l.simulated = last.simulations;
  if (all.layered && &last != &*all.layered) l.simulated += all.layered->simulations;
  // These counters belong to the refined plan; if its gain is too small to show, the answer is another plan.
  const bool refined_is_answer = !last.best || all.best_ns() == last.best->iteration_ns;
  if (last.refinement && refined_is_answer) {
    l.refinement_tried = last.refinement->tried;
    l.refinement_left = last.refinement->left;
  }
  for (const auto& row : last.balance.rows)
    l.balance.push_back({row.name, row.first, row.alpha_t, row.alpha_m, row.iteration_ns});
  s.layerwise = std::move(l);
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

void add_groups(const search::GroupedOutcome& found, SearchSummary& s) {
  s.device_groups = DeviceGroupsSummary{found.sizes,      found.options,     found.dropped, found.bounded,
                                        found.candidates, found.simulations, found.refined, found.out_of_memory};
}

void add_groups_alone(const search::SingleGroupOutcome& found, SearchSummary& s) {
  if (!s.device_groups) s.device_groups = DeviceGroupsSummary{};
  for (const search::GroupAlone& group : found.groups) s.device_groups->alone += group.space_size;
  s.device_groups->alone_simulated = found.simulations;
}

void add_pipelines(const search::SearchResult& all, SearchSummary& s) {
  s.device_groups->columns = all.multi_pipeline->columns;
  s.device_groups->combinations = all.multi_pipeline->bounded;
  s.device_groups->beside_simulated = all.multi_pipeline->simulations;
  s.device_groups->several_pipelines = all.several_pipelines();
  if (!all.replicas) return;
  s.device_groups->replica_plans = all.replicas->bounded;
  s.device_groups->replicas_simulated = all.replicas->simulations;
  s.device_groups->uneven_replicas = all.uneven_replicas();
}

void add_phases(const search::SearchResult& all, SearchSummary& s) {
  for (const search::PhaseReport& p : all.phases)
    s.phases.push_back({p.name, p.left_out, p.complete, p.bounded, p.lowered, p.simulated, p.lower_bound_ns, p.seconds});
}

SearchRequest request_of(const Question& q) {
  const PlannerOptions& options = q.options;
  SearchRequest asked{q.job.search, options.node_limit, options.disabled_rules, options.exhaustive, options.alternatives};
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
  if (all.last() != nullptr) add_layers(all, s);
  if (all.partitioned) add_partitions(all, s);
  if (all.grouped) add_groups(*all.grouped, s);
  if (all.alone) add_groups_alone(*all.alone, s);
  if (all.multi_pipeline) add_pipelines(all, s);
  add_phases(all, s);
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
