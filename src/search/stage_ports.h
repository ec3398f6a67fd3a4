// SPDX-License-Identifier: Apache-2.0
// What messages between stages made as stage_options.h says take, by *port*: options that send and take alike share
// one. Internal to it.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/cluster_costs.h"
#include "search/stage_options.h"

namespace espalier::search {

/// Bytes that a rank holds of the activation behind a layer, at least; the last layer sends nothing.
std::int64_t least_boundary(const Model& model, const std::vector<cost::LayerCost>& layers);

class StagePorts {
 public:
  /// The port of stages of a group under a strategy, whose layers cost so; counted up as they are met.
  std::int32_t of(std::size_t group, const cost::CostContext& c, const Strategy& s, const std::vector<cost::LayerCost>& layers);
  /// Fills send_ns; of ports that no message tells apart one is left.
  void fill(const Problem& problem, const cost::ClusterCosts& costs, StageOptions& out) const;

 private:
  struct Port {
    std::size_t group = 0;
    std::int64_t devices = 1;
    double bytes = 0;   ///< that a rank sends or takes, at least
    double gather = 0;  ///< seconds of the gather in its tensor group behind a message
    double host = 0;    ///< seconds of the host for a message
    bool operator==(const Port&) const = default;
  };
  [[nodiscard]] std::vector<std::vector<std::int64_t>> all_sends(const Problem& problem, const cost::ClusterCosts& costs) const;

  std::vector<Port> ports_;
};

}  // namespace espalier::search
