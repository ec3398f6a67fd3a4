// SPDX-License-Identifier: Apache-2.0
// The steps of a layer: what every collective of it moves, in which group, under which compute, and for how long. The
// code that prices layers writes them (layer_operators.h, partition_cost.h), so that the steps of a phase always add
// up to it (phase_time; checked in every call). ZeRO's traffic of a layer is in zero_steps.h, traffic between layers
// in redistribution.h.
#pragma once

#include <cstdint>

#include "cost/layer_cost.h"
#include "cost/step_cost.h"

namespace espalier::cost {

/// Returns the steps of layer_costs' phases, for one layer of `kind` (index into Model::kinds) under `s` and one
/// micro-batch. A partition must fit (partition_fits).
LayerSteps layer_steps(const CostContext& c, const Strategy& s, std::int32_t stages, std::int32_t micro_batch, std::int32_t kind);

}  // namespace espalier::cost
