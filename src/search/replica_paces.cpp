// SPDX-License-Identifier: Apache-2.0
#include "search/replica_paces.h"

#include <algorithm>

#include "base/invariant.h"
#include "cost/chunk_sum.h"

namespace espalier::search {

ReplicaPaces::ReplicaPaces(const Model& model, const cost::ClusterCosts& costs, const Pipeline& pipeline,
                           const std::vector<std::size_t>& groups)
    : model_(&model), strategy_(pipeline.stages.front().chunks.front().ranges.front().strategy), pipeline_(pipeline) {
  const cost::ScatteredStages stages(costs.cluster(), pipeline);
  const std::vector<cost::ScatteredStages::Kind>& kinds = stages.kinds(0);
  for (const std::size_t group : groups) {
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.group == group; });
    ESPALIER_CHECK(kind != kinds.end());
    contexts_.push_back(costs.context(stages, 0, static_cast<std::size_t>(kind - kinds.begin())));
  }
}

const ReplicaPace& ReplicaPaces::of(std::size_t g, std::int64_t samples) {
  const auto [found, added] = known_.try_emplace({g, samples});
  if (!added) return found->second;
  const cost::CostContext& c = sampled_.of(contexts_[g], cost::samples_of_stage(pipeline_, 0, samples));
  std::vector<cost::LayerCost> layers;
  cost::layer_costs(c, strategy_, 1, static_cast<std::int32_t>(samples), layers);
  const cost::StrategyCost x = cost::strategy_cost_of(c, strategy_, 1, layers, cost::ChunkEdges::exposed);
  cost::ChunkTotal total;
  cost::ChunkSum sum(total);
  for (const std::int32_t kind : model_->layers) {
    const bool block = model_->kinds[static_cast<std::size_t>(kind)].role == LayerRole::block;
    sum.add(x, kind, 1, block ? strategy_.recompute.kind : RecomputeKind::none);
  }
  sum.finish(x, model_->layers.front(), 1);
  return found->second = {total.forward.duration_ns(), total.backward.duration_ns()};
}

ReplicaPace ReplicaPaces::of_stage(const Levels& levels) {
  ReplicaPace slowest;
  for (std::size_t g = 0; g < levels.size(); ++g) {
    const ReplicaPace& own = of(g, levels[g]);
    slowest.forward = std::max(slowest.forward, own.forward);
    slowest.backward = std::max(slowest.backward, own.backward);
  }
  return slowest;
}

}  // namespace espalier::search
