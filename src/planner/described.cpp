// SPDX-License-Identifier: Apache-2.0
#include "planner/described.h"

#include <utility>

#include "plan/engine.h"
#include "planner/legality.h"
#include "planner/partition_report.h"

namespace espalier::planner {

Result<Prepared> prepare(const Job& job) {
  const auto engine = engine_of(job);
  if (!engine) return engine.error();
  if (Status status = plannable(job); !status.ok()) return status.error();
  if (Status status = device_choice(job, **engine); !status.ok()) return status.error();
  if (varies_by_layer(job.search.kind))
    if (Status status = layerwise_dimensions(job.search); !status.ok()) return status.error();
  return Prepared{*engine, {&job.model, &job.cluster, job.training, *engine, job.search}};
}

Result<PlannerResult> describe(const Job& job, const EngineModel& engine, Plan plan, bool spans, Timed* keep) {
  auto timed = time_plan(job, engine, plan, spans);
  if (!timed) return timed.error();
  PlannerResult result;
  result.plan = std::move(plan);
  result.notes = job.notes;
  stamp_calibration(job, result.plan);
  result.prediction = prediction_of(job, engine, *timed);
  result.operators = operator_reports(job, engine, result.plan);
  if (keep != nullptr) *keep = std::move(*timed);
  return result;
}

}  // namespace espalier::planner
