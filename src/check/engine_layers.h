// SPDX-License-Identifier: Apache-2.0
// Whether layers and stages of a plan differ only in what data/engines.yaml lets them differ in under the plan's
// engine: read again, layer by layer and pair by pair, without the search's classes (plan/layer_freedom.cpp).
//
// A layer speaks of recompute if it is a block, of sp where tp > 1, of cp_kind where cp > 1, of zero where several
// ranks hold its weights, of shard where its states are sharded (how many times they are held). Requires a plan of
// sound structure with known engine.
#pragma once

#include "check/check.h"
#include "check/view.h"

namespace espalier::check {

/// Finding "engine-layers"; a uniform plan keeps it.
Finding check_engine_layers(const View& view);

}  // namespace espalier::check
