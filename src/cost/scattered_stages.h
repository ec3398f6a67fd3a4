// SPDX-License-Identifier: Apache-2.0
// Stages on devices in any order, on any nodes of any groups: how their process groups and messages see the network.
//
// Nodes may have different numbers of devices, interfaces and kinds. Devices are renumbered, node after node, as if
// every node had as many as the largest has, so that device / span names the node. The members of groups are then
// counted as in any listed placement (placement.h). The rate that a group reaches between nodes is given as one level
// of its stage:
//     group q on node u        share(u) = c · W_u / D_u, with c members on u, W_u bytes/s of all its interfaces and
//                              D_u devices on it.
//     on the path from u to v  Both shares count. Between node groups, those of the joining network count as well. An
//                              `inter_group` is shared as interfaces are (W of a node is what all its devices have of
//                              that level, at least what one has alone). Among the links that Cluster::path names, a
//                              line is shared by all process groups of the stage that pass over it. Other links are
//                              shared as interfaces are (c of D_u).
//     q reaches                the least of these over its ring, which runs through its nodes in the order of its
//                              ranks
//     the stage's level        the least of its groups, divided by the fewest members that a node holds (collective.h
//                              multiplies by them)
//     α of a hop               the mean over the ring's paths between nodes, for the ring where it is longest.
//
// Replicas with unequal samples (Stage::samples_per_replica) are kinds of their own, as devices are: each computes
// its own samples. With unequal parts of the states (Stage::state_shares, w_r of W) a rank holds w_r·d/W of an equal
// part of d ranks, and updates as much. In a reduce-scatter or all-gather it gives or takes all but its own part, so
// the rank with the least waits longest. The collectives over the replicas therefore take (1 − min w/W) / (1 − 1/d)
// of the time with equal parts.
//
// Messages from stage to stage go from each rank to the rank at its place, all at once. If the numbers of ranks
// differ, they go to the rank at the same share of the list. Each part of the network between nodes divides its rate
// by the number of messages that pass it at once. The slowest message decides: min over its parts of rate / messages.
// This is also the least rate that max-min sharing gives any of them (docs/network.md). The parts are
//     interfaces of a node, out and in    s neighbouring devices share one where a device alone has s times its share
//                                         of all. In a group of one node all of them are one part.
//     inter_group, out and in             of a node, W as above; one device has no more than it has alone
//     links                               a line; of a node, out and in; of a pair of nodes.
//
// Parts other than lines carry at once the messages of all stages of a pipeline to their next stages. Where the
// gradients of two pipelines meet, every stage meets one stage of the other pipeline at a time, and all stages of a
// pipeline may meet at once. A part of a node then carries the sum, over the stages of that node's pipeline, of the
// largest load of any of their meetings. A pair of nodes carries the smaller of both such sums. Summed over the parts
// of one side, the bytes of all gradients pass at most at the rate of these parts. So no meeting of two pipelines
// takes less than all bytes at joined_node_rate.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "cost/cost_context.h"
#include "espalier/cluster.h"
#include "espalier/plan.h"
#include "espalier/result.h"
#include "plan/steps.h"

namespace espalier::cost {

/// Holds the latency in seconds from which on messages follow each other before the first has arrived
/// (cluster_costs.h).
inline constexpr double kWanLatencyThreshold = 1e-3;

/// Holds the paths between all pairs of node groups, found once; [from · groups + to].
using GroupPaths = std::vector<GroupPath>;
std::shared_ptr<const GroupPaths> group_paths(const Cluster& cluster);

/// Describes one pipeline of such stages. The cluster must outlive it.
class ScatteredStages {
 public:
  /// Takes the `paths` of the cluster; null: they are computed.
  ScatteredStages(const Cluster& cluster, const Pipeline& pipeline, std::shared_ptr<const GroupPaths> paths = nullptr);

  enum class PartKind : std::uint8_t { out, in, joined_out, joined_in, line, link_out, link_in, node_pair };
  struct Part {
    PartKind kind = PartKind::out;
    std::int64_t a = 0, b = 0, c = 0;  ///< node and port; node; link; link and node; link and both nodes
    auto operator<=>(const Part&) const = default;
  };
  using Loads = std::map<Part, double>;  ///< messages at once

  /// Describes devices of stage `i` that cost alike: a kind of device at a speed, with as many samples and as large a
  /// part of the states.
  struct Kind {
    std::size_t group = 0;
    double speed = 1.0;
    /// Holds the samples of a micro-batch that a replica takes; 0: all take the same (Stage::samples_per_replica is
    /// empty).
    std::int64_t samples = 0;
    double states = 1.0;  ///< sharded states, relative to an equal part
    bool operator==(const Kind&) const = default;
  };
  [[nodiscard]] const std::vector<Kind>& kinds(std::size_t stage) const { return kinds_[stage]; }
  /// Returns the fabric that stage `i` sees; `usual` is that of the devices' own group.
  [[nodiscard]] Fabric fabric(std::size_t stage, const Fabric& usual, const EngineModel& engine) const;
  /// Returns the link between two stages.
  [[nodiscard]] FabricLevel link(std::size_t from, std::size_t to) const;
  /// Returns the messages at once through each part of the network while the gradients of two pipelines meet.
  [[nodiscard]] Loads meetings(const ScatteredStages& other) const;
  /// Returns the link between a stage of this pipeline and one of another, with `at_once` = meetings(other).
  [[nodiscard]] FabricLevel link(std::size_t from, const ScatteredStages& other, std::size_t to, const Loads& at_once) const;

 private:
  [[nodiscard]] std::int64_t renumbered(std::int64_t device) const;
  [[nodiscard]] FabricLevel network_level(std::size_t stage, GroupKind kind) const;
  [[nodiscard]] FabricLevel usual_network(std::size_t group) const;
  [[nodiscard]] double share(std::int64_t node, std::int64_t members) const;
  [[nodiscard]] double joining_share(std::int64_t node, std::int64_t members) const;

  /// Holds the bytes/s of a part of the network: for all messages that pass it, and for one.
  struct Way {
    double all = 0, one = 0;
  };
  struct Port {
    std::int64_t number = 0;  ///< within its node
    Way carries;
  };
  [[nodiscard]] Way joining(std::int64_t node) const;
  [[nodiscard]] Port port_of(std::int64_t device) const;
  template <class Visit>
  void each_part(std::int64_t a, std::int64_t b, const Visit& visit) const;
  void add_loads(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b, Loads& loads) const;

  [[nodiscard]] const GroupPath& path(std::size_t from, std::size_t to) const {
    return (*paths_)[from * cluster_->groups.size() + to];
  }

  const Cluster* cluster_;
  const Pipeline* pipeline_;
  std::shared_ptr<const GroupPaths> paths_;
  std::int64_t widest_ = 1;                         ///< devices of the largest node, which the new numbers use
  std::vector<std::vector<std::int64_t>> devices_;  ///< by stage, in rank order
  std::vector<std::vector<Kind>> kinds_;            ///< by stage
  Loads usual_;                                     ///< loads of messages from all stages to their next ones
  std::shared_ptr<const StageDevices> listed_;      ///< renumbered
};

/// Returns the most bytes/s that can leave a node of `group` for nodes of other groups, in clusters of several groups
/// without links. The node's interfaces and the network that joins the groups limit it.
BytesPerSecond joined_node_rate(const Cluster& cluster, std::size_t group);

/// Returns whether some stage of a pipeline has unequal replicas, or does not lie on consecutive devices of one node
/// group in the order tp-cp-dp-pp.
bool is_scattered(const Cluster& cluster, const Pipeline& pipeline);
/// Returns the stages of each pipeline in order if some pipeline of the plan is scattered; else none.
std::deque<ScatteredStages> scattered_pipelines(const Cluster& cluster, const Plan& plan);
/// Rejects the first such stage of a plan, by place, for code that supports only consecutive devices of one group.
Status scattered_stage(const Plan& plan, const Cluster& cluster);

}  // namespace espalier::cost
