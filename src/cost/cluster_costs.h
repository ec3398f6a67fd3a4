// SPDX-License-Identifier: Apache-2.0
// Costs on unequal devices: a CostContext for each node group, and what joins stages that lie on different ones.
//
// Devices that are slower or faster than their kind (Cluster::speed_of) are devices of another kind: at factor s all
// that they compute takes 1/s of the usual time (DeviceKind::at_speed). The ranks of a stage work in lockstep, inside a
// micro-batch by TP, CP and EP and over the step by the reduction of their gradients, so that a stage is as fast as its
// slowest device.
//
// Stages that lie on devices in any order, of any groups, are priced once for each kind of device among them: of every
// work, collective and message the slowest counts, of every tensor the largest. How they see the network:
// scattered_stages.h. Over ways of a millisecond and more their messages follow each other without waiting for arrival,
// where the engine sends beside compute at all: the latency delays each of them and holds nobody (Costs::delays).
// Engines that wait for every message wait for its way too.
//
// A plan of one pipeline on a run of neighbouring devices of one group, in any of the rank orders, costs what it costs
// on that group as a cluster of its own (plan/device_block.h): each group is priced as the cluster that Cluster::alone
// returns, whatever else the cluster has. So is such a pipeline in a plan where stages of others, or its own rank
// order, make scattered stages (scattered_stages.h): these then say how gradients meet between pipelines, and the plan
// takes no less than any such pipeline alone.
//
// Any other stage lies on consecutive devices of one group, in the order tp-cp-dp-pp. Everything inside it (compute,
// TP, CP, EP, ZeRO, the reduction over its own replicas) costs what it costs on that group. Between stages:
//
//     link(a, b)      inside a group the lowest level whose domain holds both stages; between groups the level that
//                     joins them
//                     (Cluster::inter), no faster than the outermost network level of either group, nor than a device's
//                     share of the
//                     interfaces of a group of one node, which has no such level. Where the cluster names links between
//                     groups (Cluster::path): all devices of the stages together move the least of what each link on
//                     the way gives them and of
//                     what the interfaces of their nodes do; a link is shared as it says (one line, by node, by pair of
//                     nodes), and each device
//                     of the smaller stage has its part of that. Latencies of the links add up
//     message         an activation goes from d_a replicas to d_b and from one tensor group to another: every rank of a
//                     sends what it holds,
//                     every rank of b takes what it needs, and the busier end decides:
//                     σ + α + max(bytes a rank of a sends, bytes a rank of b takes) / (β·η), then an all-gather in the
//                     tensor group of b where
//                     the engine sends tensor-parallel copies in parts. Between stages of equal layout that is the
//                     message of one pipeline.
//     segment         gradients of layers that P pipelines hold: after the reduction inside each stage a rank of
//                     pipeline k answers for
//                     S_k = (its gradient bytes of the segment) / (its replicas). An all-reduce of P members
//                     (collective.h) over the slowest
//                     link between any two of the stages, of max_k S_k bytes: ranks that hold larger parts are the
//                     busier ones. A copy of a
//                     token table that several stages of a pipeline hold (plan/shared_table.h) is part of S_k where the
//                     layer is that uses
//                     it: each copy holds the sum of its own pipeline, and without meeting the others the copies would
//                     drift apart.
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

/// Where a stage lies.
struct StagePlace {
  std::size_t group = 0;
  std::int64_t first = 0, last = 0;  ///< devices, counted within the group
  double speed = 1.0;                ///< of the slowest of them, relative to their kind
  /// Set for a stage on devices in any order (scattered_stages.h); null: consecutive devices of the group, and what
  /// stands above describes them.
  const ScatteredStages* spread = nullptr;
  std::size_t stage = 0;
  std::int64_t samples = 0;              ///< of a micro-batch that a replica of a spread stage takes; 0: all take the
                                         ///< same
  const CostContext* context = nullptr;  ///< of a spread stage: what its devices cost
};

/// Whether messages over ways with a latency of kWanLatencyThreshold and more hold the stage that sends them.
enum class WanLatency : std::uint8_t {
  blocking,   ///< all but those of stages on devices in any order (scattered_stages.h), which follow each other
  pipelined,  ///< none: all follow each other
};

/// Immutable; shared by threads. The cluster lives longer than this value.
class ClusterCosts {
 public:
  ClusterCosts(const Model& model, const Cluster& cluster, const Training& training, const EngineModel& engine,
               WanLatency wan_latency = WanLatency::blocking);

  /// Of a group's devices as fast as their kind.
  [[nodiscard]] const CostContext& of(std::size_t group) const { return groups_[group]; }
  [[nodiscard]] const CostContext& of(const StagePlace& place) const;
  [[nodiscard]] std::size_t groups() const { return groups_.size(); }
  [[nodiscard]] const Cluster& cluster() const { return *cluster_; }
  [[nodiscard]] WanLatency wan_latency() const { return wan_latency_; }
  /// The context under which all stages of a plan are priced: of the group in which the plan lies as a block
  /// (plan/device_block.h), or of equal devices whose groups lie alike in the plan's own order of devices
  /// (plan/listed_devices.h), which `placed` then holds. Null: stages are priced one by one.
  const CostContext* shared_context(const Plan& plan, std::optional<CostContext>& placed) const;
  /// The context of the group in which a pipeline lies as a block, as which it is priced also next to scattered
  /// pipelines; null: it is no block.
  [[nodiscard]] const CostContext* block_context(const Pipeline& pipeline) const;
  /// Needs a stage of consecutive devices of one group (is_scattered: others).
  [[nodiscard]] StagePlace place(const Stage& stage) const;
  /// What devices of kind `k` cost in stage `i` of a spread pipeline.
  [[nodiscard]] CostContext context(const ScatteredStages& stages, std::size_t i, std::size_t k) const;
  [[nodiscard]] FabricLevel link(const StagePlace& a, const StagePlace& b) const;

 private:
  [[nodiscard]] FabricLevel named_link(const StagePlace& a, const StagePlace& b) const;

  const Cluster* cluster_;  // outlives this value
  /// Devices of a group that are unlike their kind.
  struct AtSpeed {
    std::size_t group = 0;
    double speed = 1.0;
    CostContext context;
  };

  std::vector<CostContext> groups_;
  std::vector<AtSpeed> unlike_;             ///< each speed of a group once
  std::vector<std::int64_t> first_device_;  // of each group, and the number of all
  FabricLevel join_;                        // between groups
  WanLatency wan_latency_;
};

/// Whether a plan needs ClusterCosts: the cluster has several node groups or devices of unlike speeds, the plan several
/// pipelines, or stages of unlike numbers of devices.
bool on_unlike_devices(const Plan& plan, const Cluster& cluster);

/// A plan that ClusterCosts cannot price, by place and name: operators partitioned in space and time.
Status unpriced_groups(const Plan& plan);

/// One kind of rank of every stage: stages of several kinds (scattered_stages.h) have one of them here, others their
/// only one.
struct KindCosts {
  Costs costs;
  std::vector<std::size_t> group;  ///< of its devices, by stage through all pipelines
};

/// The costs of any plan on any cluster; `program` = lower(plan, model, true) receives the bytes it moves. `kinds`, if
/// given, receives what each kind of rank costs by itself where some stage has several, else nothing: who fits into
/// which memory is known from these alone, since what is returned is of everything the most.
Costs price(const ClusterCosts& c, const Plan& plan, Program& program, std::vector<KindCosts>* kinds = nullptr);

}  // namespace espalier::cost
