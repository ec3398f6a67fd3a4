// SPDX-License-Identifier: Apache-2.0
// The table of contents: load → validate → cost → search → lower → simulate the best → check → result.
#include <chrono>

#include "base/invariant.h"
#include "espalier/engines.h"
#include "espalier/planner.h"
#include "plan/engine.h"
#include "planner/alternatives.h"
#include "planner/answer_extras.h"
#include "planner/certificate.h"
#include "planner/described.h"
#include "planner/group_baselines.h"
#include "planner/infeasible.h"
#include "planner/legality.h"
#include "planner/memory.h"
#include "planner/memory_margin.h"
#include "planner/prediction.h"
#include "planner/reasons.h"
#include "planner/restriction.h"
#include "planner/runs_on.h"
#include "planner/search_options.h"
#include "planner/simplest.h"
#include "planner/simulated_evaluator.h"
#include "planner/sorted_groups.h"
#include "planner/verify.h"
#include "planner/watch.h"
#include "search/phases.h"
#include "search/search.h"

namespace espalier {

using namespace planner;

namespace {

using Clock = std::chrono::steady_clock;

void add_seeds(const std::vector<search::Configuration>& more, search::Options& how) {
  how.seeds.insert(how.seeds.begin(), more.begin(), more.end());
}

}  // namespace

Result<PlannerResult> plan(const Job& job, const PlannerOptions& options) {
  const auto start = Clock::now();
  const SortedGroups order = sorted_groups(job.cluster);
  const Job sorted = sorted_job(job, order);
  // what is searched: the margin for the error of the memory model stays free
  const Job room = with_memory_room(sorted);
  const auto prepared = prepare(room);
  if (!prepared) return prepared.error();
  const EngineModel& engine = *prepared->engine;
  if (auto refused = searched_pins(room)) return *refused;
  Watch watch(options);
  auto phases = search_options(job, engine, options, watch);
  if (!phases) return phases.error();
  search::Options& how = phases->how;
  SimulatedEvaluator evaluator(how.threads, job.network);
  const bool equal = job.cluster.equal_devices();
  const std::vector<JudgedBaseline> presets = equal ? judge_baselines(job, engine) : std::vector<JudgedBaseline>{};
  how.seeds = seeds_of(presets);
  PlannerMemory* memory = equal ? options.memory : nullptr;
  const std::optional<search::Carried> carried = carried_for(memory, room);
  phases->carried = carried ? &*carried : nullptr;
  if (!carried && options.node_limit == 0) add_seeds(seeds_for(memory, room), how);
  phases->keep_record = memory != nullptr;
  std::vector<ClusterBaseline> whole =
      equal ? std::vector<ClusterBaseline>{} : whole_cluster_plans_as_listed(sorted, engine, how.threads, how.interrupted);
  phases->starts = starts_of(sorted, whole);
  const auto searching = Clock::now();
  search::SearchResult all = search::search(prepared->problem, evaluator, *phases);
  to_file_order(order, all);
  for (ClusterBaseline& one : whole)
    if (one.plan) to_file_order(order, *one.plan);
  remember(memory, room, std::move(all.uniform.record));
  const auto best = all.best();
  if (!best) return equal ? infeasible(job, engine, all.flat(), watch) : nothing_fits(job, all, watch);
  const Plan fastest = document_of(job, engine, *best);
  search::Problem flat = prepared->problem;
  flat.partitions = all.partitioned ? &all.choices : nullptr;
  const bool equal_stages = best->pipelines.empty();
  std::optional<Simplest> simplest;
  if (equal_stages)
    simplest =
        simplest_plan(job, engine, flat, evaluator, how, {&fastest, best->iteration_ns, options.simple_within, &all.flat()});
  const bool simple = options.simple && simplest;
  const double search_s = seconds_since(searching);
  Timed timed;
  auto result = describe(job, engine, simple ? *simplest->plan : fastest, false, &timed);
  if (!result) return result;
  ESPALIER_CHECK(result->prediction.iteration_ns == (simple ? simplest->iteration_ns : best->iteration_ns));
  if (auto broken = verify(job, engine, result->plan, timed)) return *broken;
  result->search = certificate_of(job, engine, all, watch);
  result->search.asked = request_of(job, options);
  restate(result->search, result->prediction.iteration_ns);
  if (simple && !simplest->certified && searched(watch.reason())) result->search.reason = watch.reason();
  result->simplest = std::move(simplest);
  result->alternatives =
      equal ? alternatives_of(job, engine, *result, presets, all.flat(), options.alternatives)
            : group_alternatives(job, engine, *result, all.alone ? &*all.alone : nullptr, whole, how.threads, how.interrupted);
  if (options.keep_searched && equal) result->searched = searched_of(job, engine, all.flat());
  if (!(result->plan == fastest)) add_fastest(job, engine, fastest, *result);
  PlannerOptions watched = options;  // the time limit holds for what stands beside the answer too
  watched.interrupted = how.interrupted;
  if (equal_stages)
    add_beside(room, engine, evaluator, how, {job, watched, all.uniform}, *result);
  else
    result->runs_on = engines_that_run(job, result->plan);
  if (options.restriction && has_rules(engine)) {
    auto price = restriction_price(job, engine, watched, *result);
    if (!price) return price.error();
    result->restriction = std::move(*price);
  }
  result->reasons = reasons_of(job, *result);
  result->threads = how.threads;
  result->search_s = search_s;
  result->total_s = seconds_since(start);
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
  // Beside a configuration on several node groups stands nothing: baselines are uniform plans of equal devices.
  if (job.cluster.homogeneous())
    result->alternatives = alternatives_of(job, engine, *result, judge_baselines(job, engine), {}, 0);
  result->reasons = reasons_of(job, *result);
  result->total_s = seconds_since(start);
  return result;
}

}  // namespace espalier
