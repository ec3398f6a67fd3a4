// SPDX-License-Identifier: Apache-2.0
// What stands beside the answer: baseline presets and runners-up, each with what it loses.
#pragma once

#include <string>
#include <vector>

#include "espalier/plan.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "planner/baselines.h"
#include "search/search.h"

namespace espalier::planner {

/// Beside a layer-wise answer: the fastest plan with one strategy for all layers.
inline constexpr const char* kBestUniformPlan = "best uniform plan";

/// A preset with its best member (or why there is none); `fits`: with the memory margin.
struct JudgedBaseline {
  std::string label, refusal;
  bool legal = false, fits = false;
  search::Configuration configuration;
  Prediction prediction;
  std::string engine = {};  ///< with options of its own; empty: that of the job
};

std::vector<JudgedBaseline> judge_baselines(const Job& job, const EngineModel& engine);
std::vector<search::Configuration> seeds_of(const std::vector<JudgedBaseline>& baselines);

std::vector<Alternative> alternatives_of(const Job& job, const EngineModel& engine, const PlannerResult& answer,
                                         const std::vector<JudgedBaseline>& baselines, const search::Outcome& found,
                                         int runners_up);

/// All that the search simulated and kept, under their labels.
std::vector<SearchedPlan> searched_of(const Job& job, const EngineModel& engine, const search::Outcome& found);

/// A plan timed beside the answer. Without a name it is a runner-up under its own label.
std::optional<Alternative> alternative_of(const Job& job, const EngineModel& engine, const PlannerResult& answer, Plan plan,
                                          const std::string& name);

/// Where `other` spends more and less time than `best`, by the busiest stage of each, whose parts sum to the iteration:
/// losses first, the largest of all leading: "exposed communication +0.213 s, pipeline bubble -0.050 s". Parts below a
/// tenth of what moved are left out.
std::string differences(const Prediction& other, const Prediction& best);

}  // namespace espalier::planner
