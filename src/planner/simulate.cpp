// SPDX-License-Identifier: Apache-2.0
// Simulates a plan again, exactly as given.
#include <chrono>
#include <utility>

#include "cost/cluster_costs.h"
#include "espalier/planner.h"
#include "planner/described.h"
#include "planner/legality.h"
#include "planner/reasons.h"
#include "sim/step_track.h"
#include "sim/timeline.h"

namespace espalier {

using namespace planner;

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Result<PlannerResult> planner::simulated(const Job& job, const Plan& plan, Timed* keep) {
  const auto start = Clock::now();
  const auto prepared = prepare(job);
  if (!prepared) return prepared.error();
  if (Status status = validate(plan); !status.ok()) return status.error();
  if (Status status = unsupported(plan); !status.ok()) return status.error();
  if (Status status = plan_fits_job(job, plan); !status.ok()) return status.error();
  auto result = describe(job, *prepared->engine, plan, keep != nullptr, keep);
  if (!result) return result;
  result->reasons = reasons_of(job, *result);
  result->total_s = seconds_since(start);
  return result;
}

Result<PlannerResult> simulate(const Job& job, const Plan& plan) { return simulated(job, plan, nullptr); }

Result<SimulatedPlan> simulate_with_timeline(const Job& job, const Plan& plan, TimelineDetail detail) {
  if (detail == TimelineDetail::steps && validate(plan).ok() && cost::on_unlike_devices(plan, job.cluster))
    return Error{ErrorKind::bad_input, "--detail", "a plan with stages on unlike devices", "a plan with equal stages",
                 "a timeline without details is available: omit --detail"};
  Timed timed;
  auto result = simulated(job, plan, &timed);
  if (!result) return result.error();
  SimulatedPlan out{std::move(*result), sim::timeline_of(plan, timed.program, timed.costs, timed.simulation)};
  if (detail == TimelineDetail::steps) {
    const auto engine = engine_of(job);
    if (!engine) return engine.error();
    cost::CostContext context(job.model, job.cluster, job.training, **engine);
    context.fabric.place(plan);
    sim::add_steps(context, plan, timed.program, timed.costs, timed.simulation, out.timeline);
  }
  return out;
}

}  // namespace espalier
