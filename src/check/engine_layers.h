// SPDX-License-Identifier: Apache-2.0
// Checks that layers and stages of a plan differ only where data/engines.yaml allows it for the plan's engine. The
// file is read again, layer by layer and pair by pair, without the search's classes (plan/layer_freedom.cpp).
//
// Not every dimension applies to a layer. Recomputation applies to blocks, sp where tp > 1, and cp_kind where cp > 1.
// ZeRO applies where several ranks hold the layer's weights, and shard (the number of copies of the states) where
// they are sharded. Requires a plan of sound structure with a known engine.
#pragma once

#include "check/check.h"
#include "check/view.h"

namespace espalier::check {

/// Returns the finding "engine-layers". A uniform plan always passes.
Finding check_engine_layers(const View& view);

}  // namespace espalier::check
