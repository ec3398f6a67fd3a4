// SPDX-License-Identifier: Apache-2.0
// Describes how the layers of a plan are distributed, for the sentences about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/plan.h"

namespace espalier::planner {

/// Returns the last layer of a plan, its head.
std::int32_t last_layer_of(const Plan& plan);
std::int32_t last_layer_of(const Pipeline& pipeline);
/// Counts the layers that the stage holds, over all its chunks.
std::int32_t layer_count(const Stage& stage);
/// Returns the layers of each stage: "14+13+11+12"; a stage of several chunks counts with their sum.
std::string layers_by_stage(const Plan& plan);
/// Counts the stages of each pipeline.
std::vector<std::int32_t> stage_counts(const Plan& plan);
/// Returns the one strategy and schedule of a uniform plan; nullopt for any other.
std::optional<std::pair<Strategy, Schedule>> uniform_configuration(const Plan& plan);

}  // namespace espalier::planner
