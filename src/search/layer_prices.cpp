// SPDX-License-Identifier: Apache-2.0
#include "search/layer_prices.h"
#include "plan/engine.h"

#include <algorithm>

namespace espalier::search {
namespace {

constexpr std::size_t kMostPrices = 16'384;  // a few kilobytes each

/// Returns whether the engine's tensor collectives wait for messages between nodes (coefficients of
/// cost/layer_cost.cpp).
bool messages_delay(const EngineModel& engine) {
  return engine.coefficients.collective_wait_s > 0 && engine.eager.message_host_calls > 0;
}

}  // namespace

LayerPrices::Key LayerPrices::key_of(const cost::CostContext& c, const Strategy& s, std::int32_t stages,
                                     std::int32_t micro_batch) {
  Key key{s.tp,
          static_cast<std::int64_t>(s.sp),
          s.cp,
          static_cast<std::int64_t>(s.cp_kind),
          s.ep,
          s.etp,
          s.overlap.tp ? 1 : 0,
          offloads_activations(s.offload) ? 1 : 0,
          micro_batch,
          static_cast<std::int64_t>(s.recompute.modules.bits()),
          c.workload.lengths.packed ? s.dp : 0,
          c.workload.lengths.packed ? stages : 0,
          messages_delay(*c.engine) && cost::pipeline_crosses(c.fabric.placing(), s, stages, c.fabric.node_levels) ? 1 : 0};
  const cost::Group cp = cost::cp_group(c.fabric.placing(), s), ep = cost::ep_group(c.fabric.placing(), s, stages);
  std::copy(cp.members.begin(), cp.members.end(), key.begin() + kDegrees);
  std::copy(ep.members.begin(), ep.members.end(), key.begin() + kDegrees + cost::kMaxLevels);
  return key;
}

void LayerPrices::price(const cost::CostContext& c, const Strategy& s, std::int32_t stages, std::int32_t micro_batch,
                        std::vector<cost::LayerCost>& out) {
  if (!s.partition.empty()) {
    cost::layer_costs(c, s, stages, micro_batch, out);
    return;
  }
  if (known_.size() >= kMostPrices) known_.clear();
  const auto [at, is_new] = known_.try_emplace(key_of(c, s, stages, micro_batch));
  if (is_new) cost::layer_costs(c, s, stages, micro_batch, at->second);
  out = at->second;
}

}  // namespace espalier::search
