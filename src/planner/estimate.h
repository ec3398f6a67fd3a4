// SPDX-License-Identifier: Apache-2.0
// What one configuration costs: the prediction behind `estimate`, `plan` and `validate`, without baselines or reasons.
#pragma once

#include "espalier/planner.h"

namespace espalier::planner {

/// Simulated time and memory of one configuration. Illegal ones are an Error naming every broken rule; one that does
/// not fit is a prediction with fits = false. peak_memory_bytes_per_stage has one entry a stage.
Result<Prediction> predict(const Job& job, const Strategy& strategy, const Schedule& schedule);
/// The same with another description of the job's engine: fits predict a run under many of them.
Result<Prediction> predict_with(const Job& job, const EngineModel& engine, const Strategy& strategy, const Schedule& schedule);

/// The same of a plan as it stands, its devices and layers as it lists them.
Result<Prediction> predict_plan(const Job& job, const Plan& plan);
/// The same, and messages over long ways follow each other on equal devices too (ClusterCosts::WanLatency). The search
/// does not know that of equal devices yet, so that only measured runs are predicted so.
bool is_wan_latency(double seconds);
Result<Prediction> predict_over_wan(const Job& job, const Plan& plan);

}  // namespace espalier::planner
