// SPDX-License-Identifier: Apache-2.0
// Derives again what DeepSpeed's ZeRO keeps on a rank beyond states, and how much of the model its backward pass
// gathers (data/engines.yaml, memory.zero). All layers of such a plan have one strategy.
//
// A model has W elements on a rank, of which Z belong to the rank. It keeps
//     gathered    the tail of the model: `live` elements, or half of `reuse` where that is larger. A parameter is used
//                 again after all later ones were used twice. The tail is at least the largest layer and at most W.
//                 The backward pass gathers the rest a second time
//     gradients   whole buckets, one of them for the reduction under way. Copies hold a full bucket, or the largest
//                 layer where that is larger. Stage 1 with fp32 sums holds further bytes of all W
//     update      copies of the Z gradients, tile by tile under stage 3, or the largest table in the norm's type
#pragma once

#include <cstdint>
#include <vector>

#include "check/view.h"

namespace espalier::check {

/// Returns whether the plan's engine states what its ZeRO keeps.
bool states_zero(const View& view);
/// Returns the bytes of each stage; zeros if the engine states nothing.
std::vector<std::int64_t> held_by_zero(const View& view);
/// Returns the part of the parameters that the backward pass gathers, of those that the forward pass gathered.
double gathered_twice(const View& view, const Strategy& s);

}  // namespace espalier::check
