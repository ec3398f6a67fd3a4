// SPDX-License-Identifier: Apache-2.0
// Turns a plan into its prediction: cost → lower → simulate, the path that `plan`, `estimate` and `simulate` share.
#pragma once

#include "cost/cluster_costs.h"
#include "cost/costs.h"
#include "espalier/plan.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "plan/program.h"
#include "search/evaluator.h"
#include "search/phases.h"

namespace espalier::planner {

/// Holds the memory of the ranks of one kind in stages that have several (cost::KindCosts), by rank class.
struct KindMemory {
  cost::KindCosts kind;
  std::vector<MemoryPeak> peaks;
};

/// Holds the program, costs and simulation of one plan.
struct Timed {
  Program program;
  cost::Costs costs;
  std::vector<KindMemory> kinds;             ///< empty: all ranks of a stage are alike
  Simulation simulation;                     ///< under the job's network model
  std::optional<NetworkPrediction> network;  ///< under the flow-level network only
};

/// Prices, lowers (folded) and simulates `plan` exactly as given. Returns the error of support() (planner/support.h),
/// or an error if the program does not end.
Result<Timed> time_plan(const Job& job, const EngineModel& engine, const Plan& plan, bool spans,
                        cost::WanLatency ways = cost::WanLatency::blocking);

Prediction prediction_of(const Job& job, const EngineModel& engine, const Timed& timed);

/// Returns the engine of the job, or an Error that lists the known ones.
Result<const EngineModel*> engine_of(const Job& job);
/// Rejects jobs that uniform planning does not support yet (mixed clusters, no sequence …).
Status plannable(const Job& job);
/// Writes the job's calibration, or the absence of one, into the plan.
void stamp_calibration(const Job& job, Plan& plan);
/// Writes the job's inputs with their hashes, and its calibration, into the plan.
void stamp_inputs(const Job& job, Plan& plan);
/// Returns a candidate of the search as a plan, without the job's inputs.
Plan plan_of(const search::CandidatePlan& candidate);
/// Returns the plan document of one uniform configuration, with inputs and hashes filled in.
Plan document_of(const Job& job, const EngineModel& engine, const Strategy& strategy, const Schedule& schedule);
/// Returns the plan document of a layer-wise configuration: the ranges of each pipeline chunk.
Plan document_of(const Job& job, const EngineModel& engine, const Schedule& schedule,
                 const std::vector<std::vector<LayerRange>>& chunks);
/// Returns the plan document of a candidate that a search found.
Plan document_of(const Job& job, const EngineModel& engine, const search::PlanCandidate& best);

}  // namespace espalier::planner
