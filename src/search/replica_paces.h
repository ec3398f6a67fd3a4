// SPDX-License-Identifier: Apache-2.0
// The time of a micro-batch on the replicas of each node group of a stage that lies on several (uneven_replicas.h): the
// forward and the backward of all layers with so many samples, as cost/price.h prices them for that kind of rank,
// communication inside it that compute does not hide included. A stage takes of each the most that any of its kinds
// does, so that with m micro-batches
//     step ≥ m·(max_g forward_g + max_g backward_g).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cost/cluster_costs.h"
#include "cost/sampled_contexts.h"
#include "espalier/model.h"
#include "search/replica_levels.h"

namespace espalier::search {

/// Nanoseconds.
struct ReplicaPace {
  std::int64_t forward = 0, backward = 0;
  [[nodiscard]] std::int64_t both() const { return forward + backward; }
};

class ReplicaPaces {
 public:
  /// `pipeline`: one stage of equal replicas on these node groups. Arguments outlive this value.
  ReplicaPaces(const Model& model, const cost::ClusterCosts& costs, const Pipeline& pipeline,
               const std::vector<std::size_t>& groups);

  /// Of replicas on the g-th of the groups that take so many samples.
  const ReplicaPace& of(std::size_t g, std::int64_t samples);
  /// Of the stage: of each pass the slowest group's at its level.
  ReplicaPace of_stage(const Levels& levels);

 private:
  const Model* model_;
  Strategy strategy_;
  Pipeline pipeline_;
  std::vector<cost::CostContext> contexts_;  ///< by place in the groups
  cost::SampledContexts sampled_;
  std::map<std::pair<std::size_t, std::int64_t>, ReplicaPace> known_;
};

}  // namespace espalier::search
