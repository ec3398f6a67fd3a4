// SPDX-License-Identifier: Apache-2.0
// Prices a micro-batch on the replicas of each node group of a stage that spans several (uneven_replicas.h). The pace
// is the forward and the backward time of all layers with a number of samples, as cost/price.h prices them for that
// kind of rank. It includes exposed communication inside the micro-batch. A stage takes the maximum over its kinds
// for each pass, so that with m micro-batches
//   step ≥ m·(max_g forward_g + max_g backward_g).
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

/// Holds nanoseconds.
struct ReplicaPace {
  std::int64_t forward = 0, backward = 0;
  [[nodiscard]] std::int64_t both() const { return forward + backward; }
};

class ReplicaPaces {
 public:
  /// `pipeline` is one stage of equal replicas on these node groups. Arguments must outlive this value.
  ReplicaPaces(const Model& model, const cost::ClusterCosts& costs, const Pipeline& pipeline,
               const std::vector<std::size_t>& groups);

  /// Returns the pace of replicas on the g-th of the groups with the given samples.
  const ReplicaPace& of(std::size_t g, std::int64_t samples);
  /// Returns the pace of the stage: for each pass, that of the slowest group at its level.
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
