// SPDX-License-Identifier: Apache-2.0
// How the layers of a plan lie, for the sentences about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/plan.h"

namespace espalier::planner {

/// The last layer of a plan, its head.
std::int32_t last_layer_of(const Plan& plan);
std::int32_t last_layer_of(const Pipeline& pipeline);
/// Layers that the stage holds, over all its chunks.
std::int32_t layer_count(const Stage& stage);
/// Layers that each stage holds: "14+13+11+12"; stages of several chunks as the sum of these.
std::string layers_by_stage(const Plan& plan);
/// Lists the stages of each pipeline.
std::vector<std::int32_t> stage_counts(const Plan& plan);
/// The one strategy and schedule of a uniform plan; nothing of any other.
std::optional<std::pair<Strategy, Schedule>> uniform_configuration(const Plan& plan);

}  // namespace espalier::planner
