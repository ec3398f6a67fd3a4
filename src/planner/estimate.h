// SPDX-License-Identifier: Apache-2.0
// Predicts the cost of one configuration for `estimate`, `plan` and `validate`, without baselines or reasons.
#pragma once

#include "espalier/planner.h"

namespace espalier::planner {

/// Returns the simulated time and memory of one configuration. An illegal configuration is an Error that names
/// every broken rule. One that does not fit is a prediction with fits = false. peak_memory_bytes_per_stage has one
/// entry per stage.
Result<Prediction> predict(const Job& job, const Strategy& strategy, const Schedule& schedule);
/// Predicts with another description of the job's engine: fits predict a run under many of them.
Result<Prediction> predict_with(const Job& job, const EngineModel& engine, const Strategy& strategy, const Schedule& schedule);

/// Predicts a plan with its devices and layers exactly as it lists them.
Result<Prediction> predict_plan(const Job& job, const Plan& plan);
/// Returns whether a link with this latency is a wide-area link.
bool is_wan_latency(double seconds);
/// Predicts a plan whose messages over wide-area links are pipelined, on equal devices as well
/// (ClusterCosts::WanLatency). The search does not model this for equal devices yet, so only measured runs are
/// predicted this way.
Result<Prediction> predict_over_wan(const Job& job, const Plan& plan);

}  // namespace espalier::planner
