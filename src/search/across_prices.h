// SPDX-License-Identifier: Apache-2.0
// Computes the parts of the bounds of uniform plans across node groups (whole_cluster.h): where stages lie, the
// compute of layers there, and the price of a plan.
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

/// Computes the forward and backward compute of every layer kind for one micro-batch of a rank, in nanoseconds, on
/// each group. Communication is left out, so that the figures do not depend on where the ranks lie. Results are
/// cached.
class LayerCompute {
 public:
  explicit LayerCompute(const Problem& problem);
  /// Returns the compute by layer kind, on a device of the group at the speed of the fastest.
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

/// Holds the classes of the devices of a set: groups with equal compute share one.
struct DeviceClasses {
  std::vector<std::size_t> of_part;  ///< by part of the set
  std::vector<std::size_t> group;    ///< one group of each class
};
inline constexpr std::size_t kMostClasses = 64;
DeviceClasses classes_of(const Cluster& cluster, const NodeSet& nodes);

/// Returns the classes on which each stage of a uniform plan on `nodes` lies, one bit each. Requires at most
/// kMostClasses classes.
std::vector<std::uint64_t> classes_of_stages(const Cluster& cluster, const NodeSet& nodes, const DeviceClasses& classes,
                                             const Configuration& c);

/// Returns the uniform plan with its ranks on the devices of a set, in their order.
Plan plan_across(const Problem& problem, const Cluster& own, const std::vector<std::int64_t>& devices, const Configuration& c);

/// Returns equal nodes of several groups as one cluster, with a network at least as fast as the link between any two
/// of them. A uniform plan across the groups takes no less than the same plan on this cluster. Returns nullopt where
/// nodes differ, or where named links join the groups, because their capacity depends on which nodes share them.
std::optional<Cluster> best_joined(const Cluster& cluster, const NodeSet& nodes);

/// Holds the pipeline bounds of a plan of one pipeline.
struct AcrossBounds {
  std::int64_t bare_ns = 0;  ///< collectives at the end of the step, and updates, cost nothing
  std::int64_t full_ns = 0;
};
AcrossBounds bounds_across(const cost::ClusterCosts& costs, const Plan& plan);

}  // namespace espalier::search
