// SPDX-License-Identifier: Apache-2.0
// What bounds of uniform plans across node groups are made of (whole_cluster.h): where stages lie, the compute of
// layers there, and a plan's price.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cost/cluster_costs.h"
#include "search/node_sets.h"
#include "search/search.h"

namespace espalier::search {

/// Forward and backward compute of every layer kind for one micro-batch of a rank, in nanoseconds, on each group.
/// Communication is left out, so that the figures do not depend on where the ranks lie. Remembers.
class LayerCompute {
 public:
  explicit LayerCompute(const Problem& problem);
  /// By layer kind, on a device of the group at the speed of the fastest.
  const std::vector<double>& of(std::size_t group, const Configuration& c);

 private:
  struct Group {
    Cluster alone;  ///< outlives the context
    double fastest = 1.0;
  };
  using Key = std::array<std::int64_t, 11>;
  const Problem* problem_;
  std::map<Key, std::vector<double>> known_;
};

/// Kinds of the devices of a set: groups that compute alike share one.
struct DeviceClasses {
  std::vector<std::size_t> of_part;  ///< by part of the set
  std::vector<std::size_t> group;    ///< of each class a group
};
inline constexpr std::size_t kMostClasses = 64;
DeviceClasses classes_of(const Cluster& cluster, const NodeSet& nodes);

/// Classes on which each stage of a uniform plan on `nodes` lies, one bit each. Needs at most kMostClasses.
std::vector<std::uint64_t> classes_of_stages(const Cluster& cluster, const NodeSet& nodes, const DeviceClasses& classes,
                                             const Configuration& c);

/// The uniform plan with its ranks on the devices of a set, in their order.
Plan plan_across(const Problem& problem, const Cluster& own, const std::vector<std::int64_t>& devices, const Configuration& c);

/// Equal nodes of several groups as one cluster, on a network that no two of them are better joined by: a uniform plan
/// across the groups takes no less than the same plan there. Nothing where nodes differ, or named links join the
/// groups, whose capacity depends on who shares them.
std::optional<Cluster> best_joined(const Cluster& cluster, const NodeSet& nodes);

/// Pipeline bounds of a plan of one pipeline.
struct AcrossBounds {
  std::int64_t bare_ns = 0;  ///< collectives of the end of the step and updates for free
  std::int64_t full_ns = 0;
};
AcrossBounds bounds_across(const cost::ClusterCosts& costs, const Plan& plan);

}  // namespace espalier::search
