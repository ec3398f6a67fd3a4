// SPDX-License-Identifier: Apache-2.0
// How the layers of a plan lie, for the sentences about it.
#pragma once

#include <cstdint>
#include <string>

#include "espalier/plan.h"

namespace espalier::planner {

/// The last layer of a plan, its head.
std::int32_t last_layer_of(const Plan& plan);
/// Layers that the stage holds, over all its chunks.
std::int32_t layer_count(const Stage& stage);
/// Layers that each stage holds: "14+13+11+12"; stages of several chunks as the sum of these.
std::string layers_by_stage(const Plan& plan);

}  // namespace espalier::planner
