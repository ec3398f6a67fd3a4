// SPDX-License-Identifier: Apache-2.0
#include "planner/restriction.h"

#include <memory>

#include "base/invariant.h"
#include "plan/engine.h"
#include "planner/plan_layers.h"
#include "planner/prediction.h"
#include "planner/question.h"
#include "planner/runs_on.h"
#include "planner/simulated_evaluator.h"

namespace espalier::planner {
namespace {

/// Returns the job under its engine without rules.
Job free_job(const Job& job, const EngineModel& engine) {
  Job out = job;
  out.engine_model = std::make_shared<const EngineModel>(without_rules(engine));
  return out;
}

/// Adds the answer as a start: it is also legal there, so the price of a uniform answer is never below 0.
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
  PlannerOptions alone = options;
  alone.memory = nullptr;  // it remembers searches under the rules
  Watch watch(alone);
  auto question = question_of(free, alone, watch);
  if (!question) return question.error();
  Question& q = **question;
  if (!q.equal) baselines_of(q);  // plans of the whole cluster are starts of the search
  add_answer(answer.plan, q.how());
  SimulatedEvaluator evaluator(q.how().threads, job.network);
  const search::SearchResult all = search_for(q, evaluator);
  RestrictionPrice out;
  out.engine = engine.name;
  const auto best = all.best();
  if (!best) return out;
  const Plan plan = document_of(free, *q.engine, *best);
  out.label = plan.label();
  out.iteration_ns = best->iteration_ns;
  out.price = static_cast<double>(answer.prediction.iteration_ns) / static_cast<double>(best->iteration_ns) - 1;
  out.certified = all.complete() && all.lower_bound_ns() == best->iteration_ns;
  out.rules = broken_rules(engine, job, plan);
  return out;
}

}  // namespace espalier::planner
