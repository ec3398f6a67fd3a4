// SPDX-License-Identifier: Apache-2.0
// Collects the alternatives that an answer lists: baseline presets and runners-up, each with what it loses.
#pragma once

#include <string>
#include <vector>

#include "espalier/plan.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "planner/baselines.h"
#include "search/search.h"

namespace espalier::planner {

/// Labels the fastest plan with one strategy for all layers, which is listed next to a layer-wise answer.
inline constexpr const char* kBestUniformPlan = "best uniform plan";

/// Holds a preset with its best member, or the reason why it has none. `fits` includes the memory margin.
struct JudgedBaseline {
  std::string label, refusal;
  bool legal = false, fits = false;
  search::Configuration configuration;
  Prediction prediction;
  std::string engine = {};  ///< set if the preset has options of its own; empty: the job's engine
};

std::vector<JudgedBaseline> judge_baselines(const Job& job, const EngineModel& engine);
std::vector<search::Configuration> seeds_of(const std::vector<JudgedBaseline>& baselines);

std::vector<Alternative> alternatives_of(const Job& job, const EngineModel& engine, const PlannerResult& answer,
                                         const std::vector<JudgedBaseline>& baselines, const search::Outcome& found,
                                         int runners_up);

/// Returns all plans that the search simulated and kept, under their labels.
std::vector<SearchedPlan> searched_of(const Job& job, const EngineModel& engine, const search::Outcome& found);

/// Times a plan and compares it with the answer. A plan without a name is a runner-up under its own label.
std::optional<Alternative> alternative_of(const Job& job, const EngineModel& engine, const PlannerResult& answer, Plan plan,
                                          const std::string& name);

/// Describes where `other` spends more or less time than `best`, by the parts of the busiest stage of each, which sum
/// to the iteration. Losses come first, the largest one leading: "exposed communication +0.213 s, pipeline bubble
/// -0.050 s". Omits parts below a tenth of the sum of all differences.
std::string differences(const Prediction& other, const Prediction& best);

}  // namespace espalier::planner
