// SPDX-License-Identifier: Apache-2.0
// Costs on unequal devices: a CostContext for each node group, and the links between stages that lie on different
// groups.
//
// Devices that are slower or faster than their kind (Cluster::speed_of) are devices of another kind. At factor s all
// that they compute takes 1/s of the usual time (DeviceKind::at_speed). The ranks of a stage work in lockstep: inside
// a micro-batch through TP, CP and EP, over the step through the reduction of their gradients. A stage is therefore
// as fast as its slowest device.
//
// Stages on devices in any order, of any groups, are priced once for each kind of device among them. The slowest
// counts for every work, collective and message, the largest for every tensor. scattered_stages.h describes how such
// stages see the network. Over paths of a millisecond and more, their messages follow each other without waiting for
// arrival, where the engine overlaps sends with compute at all. The latency then delays each message and blocks no
// sender (Costs::delays). Engines that wait for every message wait for its latency as well.
//
// A plan of one pipeline may lie on neighbouring devices of one group, in any rank order. It then costs what it costs
// on that group as a cluster of its own (plan/device_block.h). Each group is priced as the cluster that
// Cluster::alone returns, whatever else the cluster has. Such a pipeline also costs this in a plan with scattered
// stages (scattered_stages.h), whether other pipelines or its own rank order cause them. The scattered stages then
// determine how gradients meet between pipelines, and the plan takes no less than any such pipeline alone.
//
// Any other stage lies on consecutive devices of one group, in tp-cp-dp-pp order. All work inside it (compute, TP,
// CP, EP, ZeRO, the reduction over its own replicas) costs what it costs on that group. Between stages:
//
//     link(a, b)   Inside a group: the lowest level whose domain holds both stages. Between groups: the level that
//                  joins them (Cluster::inter). It is no faster than the outermost network level of either group. A
//                  group of one node has no such level; there a device's share of its interfaces is the limit. The
//                  cluster may name links between groups instead (Cluster::path). All devices of the stages together
//                  then move the least of what each link on the path and the interfaces of their nodes give them. A
//                  link is shared as it specifies (one line, by node, by pair of nodes), and each device of the
//                  smaller stage has its part of that. Latencies of the links add up.
//     message      An activation goes from d_a replicas to d_b and from one tensor group to another. Every rank of a
//                  sends what it holds, every rank of b takes what it needs, and the busier end decides.
//                  Time: σ + α + max(bytes a rank of a sends, bytes a rank of b takes) / (β·η).
//                  An all-gather in the tensor group of b follows where the engine sends tensor-parallel copies in
//                  parts. Between stages of equal layout this is the message of one pipeline.
//     segment      Gradients of layers that P pipelines hold. After the reduction inside each stage a rank of pipeline
//                  k is responsible for S_k = (its gradient bytes of the segment) / (its replicas). P members then
//                  all-reduce max_k S_k bytes (collective.h) over the slowest link between any two of the stages:
//                  ranks that hold larger parts are the busier ones. Several stages of a pipeline may hold a copy of a
//                  token table (plan/shared_table.h). It is part of S_k where the layer that uses it is. Each copy
//                  holds the sum of its own pipeline; without meeting the others the copies would drift apart.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cost/cost_context.h"
#include "cost/costs.h"
#include "cost/scattered_stages.h"
#include "plan/device_block.h"
#include "plan/join.h"

namespace espalier::cost {

/// Describes where a stage lies.
struct StagePlace {
  std::size_t group = 0;
  std::int64_t first = 0, last = 0;  ///< devices, counted within the group
  double speed = 1.0;                ///< speed of the slowest of them, relative to their kind
  /// Points to the pipeline of a stage on devices in any order (scattered_stages.h). Null: the stage lies on
  /// consecutive devices of the group, as the members above describe.
  const ScatteredStages* spread = nullptr;
  std::size_t stage = 0;
  /// Counts the samples of a micro-batch that a replica of a spread stage takes; 0: all take the same.
  std::int64_t samples = 0;
  const CostContext* context = nullptr;  ///< costs of a spread stage's devices
};

/// Decides whether messages over paths with a latency of kWanLatencyThreshold and more block the stage that sends
/// them.
enum class WanLatency : std::uint8_t {
  blocking,   ///< all do, except between stages on devices in any order (scattered_stages.h)
  pipelined,  ///< none does: all follow each other
};

/// Prices plans on a cluster, which must outlive it. Immutable; shared by threads.
class ClusterCosts {
 public:
  ClusterCosts(const Model& model, const Cluster& cluster, const Training& training, const EngineModel& engine,
               WanLatency wan_latency = WanLatency::blocking);

  /// Returns the context of a group's devices that are as fast as their kind.
  [[nodiscard]] const CostContext& of(std::size_t group) const { return groups_[group]; }
  [[nodiscard]] const CostContext& of(const StagePlace& place) const;
  [[nodiscard]] std::size_t groups() const { return groups_.size(); }
  [[nodiscard]] const Cluster& cluster() const { return *cluster_; }
  [[nodiscard]] WanLatency wan_latency() const { return wan_latency_; }
  /// Returns the context under which all stages of a plan are priced; null: stages are priced one by one. It may be
  /// that of the group in which the plan lies as a block (plan/device_block.h). It may also be that of equal devices
  /// whose groups lie alike in the plan's own order of devices (plan/listed_devices.h); `placed` then holds it.
  const CostContext* shared_context(const Plan& plan, std::optional<CostContext>& placed) const;
  /// Returns the context of the group in which a pipeline lies as a block; null: it is no block. A block is priced as
  /// such even next to scattered pipelines.
  [[nodiscard]] const CostContext* block_context(const Pipeline& pipeline) const;
  /// Returns the place of a stage, which must have consecutive devices of one group (see is_scattered).
  [[nodiscard]] StagePlace place(const Stage& stage) const;
  /// Returns the context of the devices of kind `k` in stage `i` of a spread pipeline.
  [[nodiscard]] CostContext context(const ScatteredStages& stages, std::size_t i, std::size_t k) const;
  [[nodiscard]] FabricLevel link(const StagePlace& a, const StagePlace& b) const;

 private:
  [[nodiscard]] FabricLevel named_link(const StagePlace& a, const StagePlace& b) const;

  const Cluster* cluster_;  // outlives this value
  /// Holds the costs of devices of a group whose speed differs from that of their kind.
  struct AtSpeed {
    std::size_t group = 0;
    double speed = 1.0;
    CostContext context;
  };

  std::vector<CostContext> groups_;
  std::vector<AtSpeed> unlike_;             ///< each speed of a group once
  std::vector<std::int64_t> first_device_;  // first device of each group, and the number of all devices
  FabricLevel join_;                        // between groups
  WanLatency wan_latency_;
};

/// Returns whether a plan needs ClusterCosts: the cluster has several node groups or devices of unequal speeds, or
/// the plan has several pipelines or stages with unequal numbers of devices.
bool on_unlike_devices(const Plan& plan, const Cluster& cluster);

/// Rejects a plan that ClusterCosts cannot price, by place and name: operators partitioned in space and time.
Status unpriced_groups(const Plan& plan);

/// Holds the costs of one kind of rank of every stage. Stages of several kinds (scattered_stages.h) have one of them
/// here, other stages their only one.
struct KindCosts {
  Costs costs;
  std::vector<std::size_t> group;  ///< group of its devices, by stage through all pipelines
};

/// Returns the costs of any plan on any cluster. `program` = lower(plan, model, true) receives the bytes that it
/// moves. `kinds`, if given, receives the costs of each kind of rank by itself where some stage has several kinds;
/// otherwise it is cleared. Only `kinds` shows which devices fit into which memory, because the result is the maximum
/// over all kinds.
Costs price(const ClusterCosts& c, const Plan& plan, Program& program, std::vector<KindCosts>* kinds = nullptr);

}  // namespace espalier::cost
