// SPDX-License-Identifier: Apache-2.0
// Runs the planner: load → validate → cost → search → lower → simulate the best → check → result.
#include <chrono>

#include "base/invariant.h"
#include "espalier/planner.h"
#include "planner/answer_extras.h"
#include "planner/certificate.h"
#include "planner/choice.h"
#include "planner/described.h"
#include "planner/infeasible.h"
#include "planner/legality.h"
#include "planner/prediction.h"
#include "planner/question.h"
#include "planner/reasons.h"
#include "planner/simulated_evaluator.h"
#include "planner/verify.h"

namespace espalier {

using namespace planner;

Result<PlannerResult> plan(const Job& job, const PlannerOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Watch watch(options);
  auto question = question_of(job, options, watch);
  if (!question) return question.error();
  Question& q = **question;
  SimulatedEvaluator evaluator(q.how().threads, job.network);
  const Baselines baselines = baselines_of(q);
  const auto searching = std::chrono::steady_clock::now();
  const search::SearchResult found = search_for(q, evaluator);
  if (!found.best()) return nothing_fits(q, found);
  const Choice choice = choose(q, found, evaluator);
  const double search_s = seconds_since(searching);
  Timed timed;
  auto result = describe(job, *q.engine, choice.plan(), false, &timed);
  if (!result) return result;
  ESPALIER_CHECK(result->prediction.iteration_ns == choice.iteration_ns());
  if (Status status = verify(job, *q.engine, result->plan, timed); !status.ok()) return status.error();
  result->search = certificate_of(q, found, choice);
  result->simplest = choice.simplest;
  add_alternatives(q, found, baselines, choice, *result);
  if (Status status = add_extras(q, found, choice, evaluator, *result); !status.ok()) return status.error();
  result->reasons = reasons_of(job, *result);
  result->threads = q.how().threads;
  result->search_s = search_s;
  result->total_s = seconds_since(start);
  return result;
}

Result<PlannerResult> estimate(const Job& job, const Strategy& strategy, const Schedule& schedule) {
  const auto start = std::chrono::steady_clock::now();
  const auto prepared = prepare(job);
  if (!prepared) return prepared.error();
  const EngineModel& engine = *prepared->engine;
  if (Status status = illegal(job, engine, strategy, schedule); !status.ok()) return status.error();
  auto result = describe(job, engine, document_of(job, engine, strategy, schedule), false, nullptr);
  if (!result) return result;
  // On several node groups there are no alternatives: baselines are uniform plans of equal devices.
  if (job.cluster.homogeneous())
    result->alternatives = alternatives_of(job, engine, *result, judge_baselines(job, engine), {}, 0);
  result->reasons = reasons_of(job, *result);
  result->total_s = seconds_since(start);
  return result;
}

}  // namespace espalier
