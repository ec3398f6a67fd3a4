// SPDX-License-Identifier: Apache-2.0
#include "planner/restriction.h"

#include <memory>

#include "base/invariant.h"
#include "plan/engine.h"
#include "planner/described.h"
#include "planner/group_baselines.h"
#include "planner/memory_margin.h"
#include "planner/plan_layers.h"
#include "planner/prediction.h"
#include "planner/runs_on.h"
#include "planner/search_options.h"
#include "planner/simulated_evaluator.h"
#include "planner/watch.h"
#include "search/phases.h"

namespace espalier::planner {
namespace {

/// The job under its engine without rules.
Job free_job(const Job& job, const EngineModel& engine) {
  Job out = job;
  out.engine_model = std::make_shared<const EngineModel>(without_rules(engine));
  return out;
}

/// The answer is legal there too: a start, with which the price is never below 0 for a uniform answer.
void add_answer(const Plan& answer, search::Options& how) {
  if (const auto own = uniform_configuration(answer)) how.seeds.insert(how.seeds.begin(), {own->first, own->second});
}

}  // namespace

EngineModel without_rules(const EngineModel& engine) {
  const EngineModel* generic = find_engine("generic");
  ESPALIER_CHECK(generic != nullptr);
  EngineModel out = engine;
  out.family = EngineFamily::generic;
  out.runs = generic->runs;
  out.layers = generic->layers;
  return out;
}

Result<RestrictionPrice> restriction_price(const Job& job, const EngineModel& engine, const PlannerOptions& options,
                                           const PlannerResult& answer) {
  const Job free = free_job(job, engine);
  const Job room = with_memory_room(free);
  const auto prepared = prepare(room);
  if (!prepared) return prepared.error();
  Watch watch(options);
  auto phases = search_options(free, *prepared->engine, options, watch);
  if (!phases) return phases.error();
  add_answer(answer.plan, phases->how);
  SimulatedEvaluator evaluator(phases->how.threads, job.network);
  if (!job.cluster.equal_devices())
    phases->starts = starts_of(free, whole_cluster_plans(free, *prepared->engine, phases->how.threads, phases->how.interrupted));
  const search::SearchResult all = search::search(prepared->problem, evaluator, *phases);
  RestrictionPrice out;
  out.engine = engine.name;
  const auto best = all.best();
  if (!best) return out;
  const Plan plan = document_of(free, *prepared->engine, *best);
  out.label = plan.label();
  out.iteration_ns = best->iteration_ns;
  out.price = static_cast<double>(answer.prediction.iteration_ns) / static_cast<double>(best->iteration_ns) - 1;
  out.certified = all.complete() && all.lower_bound_ns() == best->iteration_ns;
  out.rules = broken_rules(engine, job, plan);
  return out;
}

}  // namespace espalier::planner
