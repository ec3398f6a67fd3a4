// SPDX-License-Identifier: Apache-2.0
// The steps of a layer: what every collective of it moves, in which group, beside which compute, and for how long.
// Written by the code that prices layers (layer_operators.h, partition_cost.h), so that the steps of a phase always add
// up to it (phase_time; checked in every call). ZeRO's traffic of a layer is zero_steps.h's, that between layers
// redistribution.h's.
#pragma once

#include <cstdint>

#include "cost/layer_cost.h"
#include "cost/step_cost.h"

namespace espalier::cost {

/// One layer of `kind` (index into Model::kinds) under `s`, one micro-batch: the steps of layer_costs' phases. A
/// partition must fit (partition_fits).
LayerSteps layer_steps(const CostContext& c, const Strategy& s, std::int32_t stages, std::int32_t micro_batch, std::int32_t kind);

}  // namespace espalier::cost
