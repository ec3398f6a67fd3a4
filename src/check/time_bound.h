// SPDX-License-Identifier: Apache-2.0
// No step can be shorter than the matrix arithmetic of its busiest stage at the device's peak.
//
//   bound = max over stages  m · Σ over its layers  3 · F / (tp·cp · peak(precision))
// F = FLOPs of one micro-batch forward: 2·in·out per token of every GEMM (experts: top_k times), attention 2·H·(qk + v) per
// query and key, where a query sees all keys, half of them when causal, or the window (causal: w − w²/2s on average). Twice
// instead of three times for the patch embedding, which hands no gradient on. Work that is not split is counted as if it
// were: that lowers the bound.
#pragma once

#include <cstdint>

#include "check/view.h"

namespace espalier::check {

std::int64_t time_lower_bound_ns(const View& view);

}  // namespace espalier::check
