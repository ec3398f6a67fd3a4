// SPDX-License-Identifier: Apache-2.0
// From a plan to its prediction: cost → lower → simulate, the path that `plan`, `estimate` and `simulate` share.
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

/// What the ranks of one kind hold in stages that have several (cost::KindCosts), by rank class.
struct KindMemory {
  cost::KindCosts kind;
  std::vector<MemoryPeak> peaks;
};

/// Everything known about one plan.
struct Timed {
  Program program;
  cost::Costs costs;
  std::vector<KindMemory> kinds;             ///< empty: all ranks of a stage are alike
  Simulation simulation;                     ///< under the network of the job
  std::optional<NetworkPrediction> network;  ///< flow
};

/// Prices, lowers (folded) and simulates `plan` as it stands. Error: what support() says (planner/support.h), or a
/// program that does not end.
Result<Timed> time_plan(const Job& job, const EngineModel& engine, const Plan& plan, bool spans,
                        cost::WanLatency ways = cost::WanLatency::blocking);

Prediction prediction_of(const Job& job, const EngineModel& engine, const Timed& timed);

/// The engine of the job, or an Error that lists the known ones.
Result<const EngineModel*> engine_of(const Job& job);
/// Refuses what uniform planning cannot do yet (mixed clusters, no sequence …).
Status plannable(const Job& job);
/// Writes the job's calibration, or that there is none, into the plan.
void stamp_calibration(const Job& job, Plan& plan);
/// Writes the job's inputs with their hashes, and its calibration, into the plan.
void stamp_inputs(const Job& job, Plan& plan);
/// A candidate of the search as a plan, without the job's inputs.
Plan plan_of(const search::CandidatePlan& candidate);
/// The plan document of one uniform configuration, inputs and hashes filled in.
Plan document_of(const Job& job, const EngineModel& engine, const Strategy& strategy, const Schedule& schedule);
/// The same of a layer-wise one: ranges of each pipeline chunk.
Plan document_of(const Job& job, const EngineModel& engine, const Schedule& schedule,
                 const std::vector<std::vector<LayerRange>>& chunks);
/// Of what a search found.
Plan document_of(const Job& job, const EngineModel& engine, const search::PlanCandidate& best);

}  // namespace espalier::planner
