// SPDX-License-Identifier: Apache-2.0
// State-space and linear-attention operators of a layer under tensor parallelism. Heads (channels of a selective
// scan) are split, and each rank scans the whole sequence of its own heads (equations: operator_cost.h). Context
// parallelism and Ulysses are rejected for them, because a state would travel from rank to rank. Internal to cost/.
#pragma once

#include "cost/layer_pricing.h"

namespace espalier::cost {

template <class Sum>
void add_selective_scan(Sum& sum, const LayerPricing& x, const Operator& op) {
  const double tokens = x.split_tokens, channels = static_cast<double>(op.in) / x.width, states = op.qk_dim;
  const double exponentials = tokens * channels * states;
  sum.compute(selective_scan_s(x.c.device.rates, exponentials, x.a * tokens * (3 * channels + 2 * states)),
              selective_scan_s(x.c.device.rates, 2 * exponentials, x.a * tokens * (5 * channels + 4 * states)), 1, 1);
}

template <class Sum>
void add_chunked_scan(Sum& sum, const LayerPricing& x, const Operator& op) {
  const bool delta = op.kind == OperatorKind::gated_delta;
  const double tokens = x.split_tokens, heads = static_cast<double>(op.heads) / x.s.tp,
               groups = static_cast<double>(op.kv_heads) / x.s.tp;
  const double k = op.qk_dim, v = op.v_dim, chunk = static_cast<double>(op.chunk);
  const double bytes = x.a * tokens * (2 * groups * k + 2 * heads * v) + 8 * tokens / chunk * heads * k * v;
  const ScanShape shape{tokens, heads, k, v, chunk, bytes, delta};
  const int kernels = x.c.device.rates.kernels_of_scan(delta);
  sum.compute(chunked_scan_s(x.c.device.rates, shape, 1), chunked_scan_s(x.c.device.rates, shape, 3), kernels, 2 * kernels);
}

}  // namespace espalier::cost
