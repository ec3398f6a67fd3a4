// SPDX-License-Identifier: Apache-2.0
// Bounds from both sides the time in which the pipelines that hold a piece of the model exchange its gradients.
//
// A rank of pipeline k exchanges S_k = Σ_layers r·(dense / data ranks + expert / expert data ranks) bytes of the
// piece, where r is the engine's bytes of a reduced element. After the reduction inside its stage, every replica
// carries its part. A copy of a token table is exchanged with the layer that uses it, so that all copies of all
// pipelines end alike. Each of P pipelines passes on 2(P − 1)/P of the tensor (Thakur et al. 2005), or 1/0.7 of it
// where switches add. On the slowest path between two stages:
//
//     least   c · min(2(P − 1)/P, 1/0.7) · max_k S_k on that path, in its faster direction, without latencies
//     most    V + L + ρ·√(L·V), V = c · 2(P − 1)/P · (1 + λ/(2(P − 1))) · (1 + γ·log₂ P) · max_k S_k in its slower
//             direction, L = c · 2P latencies
//
// c is the engine's coefficient of data communication; λ, ρ, γ are the largest of the levels between the stages
// (network_time.h).
#pragma once

#include <cstdint>
#include <vector>

#include "check/network_time.h"
#include "check/view.h"
#include "plan/program.h"

namespace espalier::check {

/// Returns seconds. `views` holds one view per pipeline of the plan, each laid out by itself.
double meeting_s(const Plan& plan, const std::vector<View>& views, const LayerSpan& layers, End end);

}  // namespace espalier::check
