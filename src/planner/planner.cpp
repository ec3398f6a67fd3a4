// SPDX-License-Identifier: Apache-2.0
// The table of contents: load → validate → cost → search → lower → simulate the best → check → result.
#include <algorithm>
#include <chrono>
#include <set>

#include "base/check.h"
#include "base/parallel.h"
#include "check/check.h"
#include "espalier/planner.h"
#include "planner/alternatives.h"
#include "planner/claims.h"
#include "planner/infeasible.h"
#include "planner/prediction.h"
#include "planner/reasons.h"
#include "planner/simulated_evaluator.h"
#include "search/layerwise.h"
#include "search/search.h"
#include "sim/trace.h"

namespace espalier {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

SearchSummary summary_of(const search::Outcome& found) {
  SearchSummary s;
  s.space_size = found.space_size;
  s.by_dimension = found.by_dimension;
  s.bounded = found.bounded;
  s.simulated = found.simulations;
  s.pruned = found.pruning.counters();
  s.optimal = found.complete;
  s.lower_bound_ns = found.lower_bound_ns;
  if (found.best) {
    const double best = static_cast<double>(found.best->iteration_ns);
    s.gap = (best - static_cast<double>(found.lower_bound_ns)) / best;
  }
  s.reason = found.complete ? "optimal" : found.interrupted ? "interrupted" : "node limit";
  return s;
}

/// A finished plan is never trusted: the independent checker must agree with it before anyone sees it.
Status verify(const Job& job, const Plan& plan, const Timed& timed) {
  const auto claims = claims_of(job, plan);
  if (!claims) return claims.error();
  const check::Report report = check::check_plan(plan, job.model, job.cluster, timed.program, &*claims);
  for (const check::Finding& f : report.findings)
    if (!f.ok)
      return Error{ErrorKind::internal, "check", f.name + ": " + f.text, "a plan that the independent checker accepts",
                   "please report"};
  return std::nullopt;
}

struct Prepared {
  const EngineModel* engine;
  search::Problem problem;
};

Result<Prepared> prepare(const Job& job) {
  const auto engine = engine_of(job);
  if (!engine) return engine.error();
  if (auto refused = plannable(job)) return *refused;
  if (job.search.kind != "uniform")
    if (auto refused = layerwise_engine(**engine)) return *refused;
  return Prepared{*engine, {&job.model, &job.cluster, job.training, *engine, job.search}};
}

Result<PlannerResult> describe(const Job& job, const EngineModel& engine, Plan plan, bool spans, Timed* keep) {
  auto timed = time_plan(job, engine, plan, spans);
  if (!timed) return timed.error();
  PlannerResult result;
  result.plan = std::move(plan);
  stamp_calibration(job, result.plan);
  result.prediction = prediction_of(job, engine, *timed);
  if (keep != nullptr) *keep = std::move(*timed);
  return result;
}

/// Beyond the uniform answer, where the job asks for it.
std::optional<search::LayerwiseOutcome> search_layers(const Job& job, const search::Problem& problem,
                                                      SimulatedEvaluator& evaluator, const search::Outcome& uniform,
                                                      const PlannerOptions& options, const search::Options& how) {
  if (job.search.kind == "uniform" || uniform.interrupted) return std::nullopt;
  search::LayerwiseOptions layered;
  layered.threads = how.threads;
  layered.node_limit = options.node_limit;
  layered.interrupted = options.interrupted, layered.progress = options.progress;
  layered.uniform = uniform.best;
  layered.starts = uniform.simulated;
  return search::layerwise(problem, evaluator, layered);
}

Plan answer_of(const Job& job, const EngineModel& engine, const search::Outcome& uniform,
               const std::optional<search::LayerwiseOutcome>& layered) {
  if (layered && layered->best)
    return document_of(job, engine, layered->best->configuration.schedule, layered->best->configuration.chunks);
  return document_of(job, engine, uniform.best->configuration.strategy, uniform.best->configuration.schedule);
}

/// The certificate of both searches together.
void add_summary(const Job& job, const search::LayerwiseOutcome& layered, const search::Outcome& uniform, SearchSummary& s) {
  s.space = job.search.kind;
  LayerwiseSummary l;
  l.uniform_ns = uniform.best ? uniform.best->iteration_ns : 0;
  l.strategies = layered.strategies, l.kept = layered.leaves, l.outer = layered.outer, l.solved = layered.solved;
  for (const auto& row : layered.balance.rows)
    l.balance.push_back({row.name, row.first, row.alpha_t, row.alpha_m, row.iteration_ns});
  s.layerwise = std::move(l);
  s.simulated += layered.simulations;
  const std::int64_t best = layered.best ? layered.best->iteration_ns : uniform.best->iteration_ns;
  const std::int64_t least_uniform = uniform.complete && uniform.best ? best : uniform.lower_bound_ns;
  s.lower_bound_ns = std::min({best, least_uniform, layered.lower_bound_ns});
  s.gap = static_cast<double>(best - s.lower_bound_ns) / static_cast<double>(best);
  s.optimal = s.lower_bound_ns == best && uniform.complete && layered.complete;
  if (!uniform.complete) return;
  s.reason = layered.interrupted ? "interrupted" : !layered.complete ? "node limit" : s.optimal ? "optimal" : "gap";
}

}  // namespace

Result<PlannerResult> plan(const Job& job, const PlannerOptions& options) {
  const auto start = Clock::now();
  const auto prepared = prepare(job);
  if (!prepared) return prepared.error();
  const EngineModel& engine = *prepared->engine;
  search::Options how;
  how.threads = options.threads > 0 ? options.threads : base::hardware_threads();
  how.node_limit = options.node_limit;
  how.interrupted = options.interrupted;
  how.progress = options.progress;
  for (const std::string& rule : options.disabled_rules)
    if (!how.pruning.disable(rule)) return unknown_pruning_rule(rule);
  SimulatedEvaluator evaluator(how.threads);
  const std::vector<JudgedBaseline> presets = judge_baselines(job, engine);
  how.seeds = seeds_of(presets);
  const auto searching = Clock::now();
  const search::Outcome found = options.exhaustive ? search::exhaustive(prepared->problem, evaluator, how)
                                                   : search::branch_and_bound(prepared->problem, evaluator, how);
  const std::optional<search::LayerwiseOutcome> layered = search_layers(job, prepared->problem, evaluator, found, options, how);
  const double search_s = since(searching);
  if (!found.best && !(layered && layered->best)) return infeasible(job, engine, found);
  Timed timed;
  auto result = describe(job, engine, answer_of(job, engine, found, layered), false, &timed);
  if (!result) return result;
  ESPALIER_CHECK(result->prediction.iteration_ns ==
                 (layered && layered->best ? layered->best->iteration_ns : found.best->iteration_ns));
  if (auto broken = verify(job, result->plan, timed)) return *broken;
  result->search = summary_of(found);
  if (layered) add_summary(job, *layered, found, result->search);
  result->alternatives = alternatives_of(job, engine, *result, presets, found, options.alternatives);
  result->reasons = reasons_of(job, *result);
  result->threads = how.threads, result->search_s = search_s, result->total_s = since(start);
  return result;
}

Result<PlannerResult> estimate(const Job& job, const Strategy& strategy, const Schedule& schedule) {
  const auto start = Clock::now();
  const auto prepared = prepare(job);
  if (!prepared) return prepared.error();
  const EngineModel& engine = *prepared->engine;
  if (auto broken = illegal(job, engine, strategy, schedule)) return *broken;
  auto result = describe(job, engine, document_of(job, engine, strategy, schedule), false, nullptr);
  if (!result) return result;
  result->alternatives = alternatives_of(job, engine, *result, judge_baselines(job, engine), {}, 0);
  result->reasons = reasons_of(job, *result);
  result->total_s = since(start);
  return result;
}

Result<PlannerResult> simulate(const Job& job, const Plan& plan, std::string* trace) {
  const auto start = Clock::now();
  const auto prepared = prepare(job);
  if (!prepared) return prepared.error();
  if (auto broken = validate(plan)) return *broken;
  if (auto broken = plan_fits_job(job, plan)) return *broken;
  Timed timed;
  auto result = describe(job, *prepared->engine, plan, trace != nullptr, &timed);
  if (!result) return result;
  if (trace != nullptr) *trace = sim::write_trace(plan, timed.program, timed.timing, timed.simulation);
  result->reasons = reasons_of(job, *result);
  result->total_s = since(start);
  return result;
}

}  // namespace espalier
