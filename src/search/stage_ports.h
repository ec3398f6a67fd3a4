// SPDX-License-Identifier: Apache-2.0
// Prices messages between the stages of stage_options.h by *port*: options that send and receive alike share one.
// This header is internal to stage_options.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/cluster_costs.h"
#include "search/stage_options.h"

namespace espalier::search {

/// Returns the least bytes that a rank holds of the activation behind a layer; the last layer sends nothing.
std::int64_t least_boundary(const Model& model, const std::vector<cost::LayerCost>& layers);

class StagePorts {
 public:
  /// Returns the port of stages of a group under a strategy whose layers have these costs. New ports get the next
  /// number.
  std::int32_t of(std::size_t group, const cost::CostContext& c, const Strategy& s, const std::vector<cost::LayerCost>& layers);
  /// Fills send_ns. Ports that no message distinguishes are merged into one.
  void fill(const Problem& problem, const cost::ClusterCosts& costs, StageOptions& out) const;

 private:
  struct Port {
    std::size_t group = 0;
    std::int64_t devices = 1;
    double bytes = 0;   ///< least bytes that a rank sends or receives
    double gather = 0;  ///< seconds of the gather in its tensor group behind a message
    double host = 0;    ///< seconds of the host for a message
    bool operator==(const Port&) const = default;
  };
  [[nodiscard]] std::vector<std::vector<std::int64_t>> all_sends(const Problem& problem, const cost::ClusterCosts& costs) const;

  std::vector<Port> ports_;
};

}  // namespace espalier::search
