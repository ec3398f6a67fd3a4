// SPDX-License-Identifier: Apache-2.0
// Builds baselines from published recipes (data/recipes.yaml, each with its source). They show how the authors of a
// framework or model ran a model of this size on devices of this generation, with their options. Degrees, schedule,
// ZeRO and recomputation are the recipe's; data parallelism takes the rest of the devices. If the micro-batch is not
// published, the fastest of 1 … 16 that fits is used.
//
// A recipe is valid on its devices, for its kind of model (dense, mixture), from a quarter to four times its size,
// and from half its sequence length upwards. Each framework contributes one valid recipe: the nearest in size (on a
// logarithmic scale) whose groups divide the devices. Only text models of one sequence have recipes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/baselines.h"

namespace espalier::planner {

struct Recipe {
  std::string label, framework, source;
  std::vector<std::string> devices;
  bool mixture = false;
  double parameters = 0;
  std::int64_t sequence = 0;  ///< 0: any
  std::int32_t tp = 1, pp = 1, cp = 1, ep = 1, vpp = 1;
  std::int32_t micro_batch = 0;  ///< 0: the fastest of 1 … 16
  ZeroStage zero = ZeroStage::none;
  RecomputeKind recompute = RecomputeKind::none;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::vector<std::string> options;
};

Result<std::vector<Recipe>> read_recipes(std::string_view yaml, const std::string& where);
const std::vector<Recipe>& shipped_recipes();

/// Returns the valid recipes, one for each framework, in the order of the file. `engine` is the job's.
std::vector<Baseline> recipes(const Job& job, const RuleFacts& facts, const EngineModel& engine);

}  // namespace espalier::planner
