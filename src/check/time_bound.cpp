// SPDX-License-Identifier: Apache-2.0
#include "check/time_bound.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace espalier::check {
namespace {

double keys_seen(const Operator& op, double tokens, double encoder_tokens) {
  const double keys = op.cross ? encoder_tokens : tokens;
  const auto window = static_cast<double>(op.window);
  const bool half = op.causal && !op.cross;
  if (window > 0 && window < keys) return half ? window - window * window / (2 * keys) : window;
  return half ? keys / 2 : keys;
}

/// Matrix FLOPs of one sample: forward and both gradients.
double training_flops_of(const LayerKind& kind, const Sequence& sequence) {
  const auto tokens = static_cast<double>(layer_tokens(kind, sequence));
  const auto encoder = static_cast<double>(sequence.encoder);
  double sum = 0;
  for (const Operator& op : kind.operators) {
    const double gemm = 2.0 * static_cast<double>(op.in) * static_cast<double>(op.out);
    if (op.kind == OperatorKind::linear) sum += 3 * gemm * (op.cross ? encoder : tokens);
    if (op.kind == OperatorKind::router) sum += 3 * gemm * tokens;
    if (op.kind == OperatorKind::expert_linear) sum += 3 * gemm * tokens * op.top_k;
    if (op.kind == OperatorKind::patch_embed) sum += 2 * gemm * tokens;
    if (op.kind == OperatorKind::attention) {
      sum += 3 * 2.0 * op.heads * (static_cast<double>(op.qk_dim) + op.v_dim) * keys_seen(op, tokens, encoder) * tokens;
    }
  }
  return sum;
}

double fastest_peak(const View& view) {
  double peak = 0;
  for (const NodeGroup& group : view.cluster->groups) {
    peak = std::max(peak, group.device.peak_of(view.plan->training.precision).count());
  }
  return peak;
}

}  // namespace

std::int64_t time_lower_bound_ns(const View& view) {
  std::vector<double> flops(static_cast<std::size_t>(view.stages), 0.0);
  for (std::size_t c = 0; c < view.chunks.size(); ++c) {
    for (const LayerRange& range : view.chunks[c].ranges) {
      const View under = view_of(view, range.strategy);
      const double share = static_cast<double>(under.micro_batch) / (static_cast<double>(under.strategy.tp) * under.strategy.cp);
      for (std::int32_t i = range.first; i <= range.last; ++i)
        flops[static_cast<std::size_t>(view.stage_of[c])] +=
            share * training_flops_of(view.model->layer(static_cast<std::size_t>(i)), view.plan->training.sequence);
    }
  }
  const double peak = fastest_peak(view);
  if (peak <= 0) return 0;
  const double seconds = *std::max_element(flops.begin(), flops.end()) * view.microbatches / peak;
  return static_cast<std::int64_t>(std::floor(std::min(seconds * 1e9, 9e18)));
}

}  // namespace espalier::check
