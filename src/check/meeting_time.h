// SPDX-License-Identifier: Apache-2.0
// How long the gradients of a piece of the model take to meet between the pipelines that hold it, from both sides.
//
// A rank of pipeline k answers for S_k = Σ_layers r·(dense / data ranks + expert / expert data ranks) bytes of the
// piece, r the engine's bytes of a reduced element: after the reduction inside its stage every replica carries its
// part. A copy of a token table comes with the layer that uses it, so that all copies of all pipelines end alike. Of P
// pipelines each passes on 2(P − 1)/P of the tensor (Thakur et al. 2005), or 1/0.7 of it where switches add; over the
// way between two stages that takes longest:
//
//     least   c · min(2(P − 1)/P, 1/0.7) · max_k S_k on that way, in its faster direction, latencies left out
//     most    V + L + ρ·√(L·V), V = c · 2(P − 1)/P · (1 + λ/(2(P − 1))) · (1 + γ·log₂ P) · max_k S_k in its slower
//             direction, L = c · 2P latencies
//
// c: the engine's coefficient of data communication; λ, ρ, γ: the largest of the levels that lie between the stages
// (fabric.h).
#pragma once

#include <cstdint>
#include <vector>

#include "check/network_time.h"
#include "check/view.h"
#include "plan/program.h"

namespace espalier::check {

/// Seconds. `views`: of the pipelines of the plan by themselves.
double meeting_s(const Plan& plan, const std::vector<View>& views, const LayerSpan& layers, End end);

}  // namespace espalier::check
