// SPDX-License-Identifier: Apache-2.0
// The costs of a strategy that all layers share (StrategyCost), and layers summed into a chunk (ChunkSum). Internal
// to cost/: price.h and layer_share.h build on it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cost/chunk_bytes.h"
#include "cost/costs.h"
#include "cost/layer_cost.h"
#include "cost/offload.h"
#include "cost/rounding.h"
#include "cost/split_table.h"
#include "cost/state_memory.h"
#include "cost/zero_steps.h"
#include "plan/program.h"
#include "plan/transformer_engine.h"

namespace espalier::cost {

inline PhaseTime times(const PhaseTime& t, std::int64_t n) {
  return {t.compute_ns * n, t.exposed_ns * n, t.other_ns * n, t.hidden_ns * n};
}

/// Joins a strategy with the groups in which it shares states.
struct Sharing {
  const CostContext& c;
  const Strategy& s;
  StatePolicy states;
  DataGroups groups;
};

/// Holds the host copies of layers by kind and by how blocks are recomputed; empty where passes copy nothing.
class LayerCopies {
 public:
  /// Computes the copies of the layers of a strategy; `zero` is the ZeRO communication in the same passes.
  void fill(const CostContext& c, const Strategy& s, const StatePolicy& states, const std::vector<LayerCost>& layers,
            const ZeroTime* zero);
  [[nodiscard]] bool any() const { return !copies_.empty(); }
  [[nodiscard]] const HostCopies& of(std::int32_t kind, RecomputeKind how) const {
    return copies_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(how)];
  }

 private:
  std::vector<std::array<HostCopies, 3>> copies_;
};

/// Holds the costs of one strategy, which are the same everywhere: its layers, its data-parallel groups, its ZeRO
/// communication, and its copies to and from the host.
struct StrategyCost : Sharing {
  const std::vector<LayerCost>& layers;
  std::array<ZeroTime, kMaxKinds> zero;
  LayerCopies host;
};

StrategyCost strategy_cost_of(const CostContext& c, const Strategy& s, std::int32_t stages, const std::vector<LayerCost>& layers,
                              ChunkEdges edges);

/// Returns the framework overhead of one pass of one micro-batch through one of the `chunks` chunks of a stage. Host
/// work per micro-batch other than launches (data, loss, logging) happens once per stage, so interleaving divides it
/// over the chunks.
inline std::int64_t pass_ns(const DeviceCost& device, const EngineModel& engine, std::int32_t chunks) {
  // Work between layers is PyTorch's, whatever modules the layers are made of. Under a profile micro_batch_s includes
  // it.
  const double launch = std::min(1.0, eager_share(engine)) * device.rates.launch;
  const double launches = engine.measured != nullptr ? 0.0 : engine.facts.pass_launches * launch;
  return round_ns(launches + engine.coefficients.micro_batch_s / (2.0 * chunks));
}

/// Holds the sums over the layers of a pipeline chunk.
struct ChunkTotal {
  PhaseTime forward;
  PhaseTime backward;        ///< input and weight gradients, recomputation included
  PhaseTime backward_input;  ///< zero-bubble split; backward_input + backward_weight ≈ backward
  PhaseTime backward_weight;
  /// Counts the sums inside tensor groups, once a step and before the update (state_memory.h, operator partitions).
  std::int64_t gradient_sync_ns = 0;
  ParameterElements elements;  ///< elements of the chunk on a rank, before ZeRO
  PassBytes bytes;             ///< bytes of one micro-batch
  std::int64_t hosted = 0;     ///< bytes of one micro-batch, in host memory
};

/// Holds the time that a copy of the token table adds to the layer that uses it.
struct TableTime {
  ZeroTime zero;
  HostCopies host;
};

/// Sums layers into a chunk, in the order of the forward pass; memory is counted as in chunk_bytes.h.
class ChunkSum {
 public:
  explicit ChunkSum(ChunkTotal& t) : t_(t) { t = ChunkTotal{}; }

  /// Adds `n` consecutive layers of kind k, recomputed as `how` says (blocks only).
  void add(const StrategyCost& x, std::int32_t k, std::int64_t n, RecomputeKind how) {
    const LayerCost& l = x.layers[static_cast<std::size_t>(k)];
    const ZeroTime& z = x.zero[static_cast<std::size_t>(k)];
    const bool again = how == RecomputeKind::full;
    t_.forward += times(l.forward, n);
    t_.forward += times(z.forward, n);
    t_.backward += times(l.backward, n);
    t_.backward += times(again ? z.backward_again : z.backward, n);
    t_.backward_input += times(l.backward_input, n);
    t_.backward_weight += times(l.backward_weight, n);
    if (how != RecomputeKind::none) {
      const PhaseTime more = again ? l.recompute_full() : l.recompute_selective;
      t_.backward += times(more, n);
      t_.backward_input += times(more, n);
    }
    if (x.host.any()) copy(x.host.of(k, how), n);
    bytes_.add(l, n, how);
    t_.gradient_sync_ns += l.gradient_sync_ns * n;
    t_.elements += l.elements().times(n);
  }
  /// Adds a copy of the token table, with its ZeRO communication and its host copies, next to the layer that uses it.
  /// `elements` are those of the copy on this rank; `leads`: that layer is the first of its chunk.
  void add_table(const ParameterElements& elements, const TableTime& table, bool leads) {
    t_.elements += elements;
    t_.forward += table.zero.forward;
    t_.forward += table.host.forward;
    t_.backward += table.zero.backward;
    t_.backward += table.host.backward;
    if (leads) {
      t_.forward.exposed_ns += table.zero.gather_ns;
      t_.backward.exposed_ns += table.zero.reduce_ns;
    }
  }
  /// Adds communication before a layer that takes the activation in another layout.
  void redistribute(std::int64_t forward_ns, std::int64_t backward_ns) {
    t_.forward.exposed_ns += forward_ns;
    t_.backward.exposed_ns += backward_ns;
    t_.backward_input.exposed_ns += backward_ns;
  }
  /// Completes the chunk. `x` and `first` are the strategy and kind of the first layer: nothing hides its gather, and
  /// its reduction comes last. `chunks` is the number of chunks of a stage.
  void finish(const StrategyCost& x, std::int32_t first, std::int32_t chunks) {
    t_.bytes = bytes_.bytes();
    t_.hosted = bytes_.hosted();
    t_.forward.exposed_ns += first_up_ns_ + last_down_ns_;
    t_.backward.exposed_ns += last_up_ns_ + first_down_ns_;
    t_.forward.exposed_ns += x.zero[static_cast<std::size_t>(first)].gather_ns;
    t_.backward.exposed_ns += x.zero[static_cast<std::size_t>(first)].reduce_ns;
    const std::int64_t pass = pass_ns(x.c.device, *x.c.engine, chunks);
    t_.forward.other_ns += pass;
    t_.backward.other_ns += pass;
    t_.backward_input.other_ns += pass;
  }

  /// Returns the saved and transient bytes at the fullest moment, forward or backward.
  [[nodiscard]] std::int64_t peak_bytes() const { return bytes_.peak(); }
  /// Returns the bytes of the layers added so far.
  [[nodiscard]] PassBytes bytes() const { return bytes_.bytes(); }

 private:
  void copy(const HostCopies& host, std::int64_t n) {
    t_.forward += times(host.forward, n);
    t_.backward += times(host.backward, n);
    if (empty_) {
      first_up_ns_ = host.first_up_ns;
      first_down_ns_ = host.first_down_ns;
    }
    last_down_ns_ = host.last_down_ns;
    last_up_ns_ = host.last_up_ns;
    empty_ = false;
  }

  ChunkTotal& t_;
  ChunkBytes bytes_;
  std::int64_t first_up_ns_ = 0, first_down_ns_ = 0, last_down_ns_ = 0, last_up_ns_ = 0;
  bool empty_ = true;
};

/// Returns the cost of a copy of the token table next to the layer that uses it. That layer costs `user`, is priced
/// under `layer`, and hides its own collectives first. `x` is priced under the strategy of the embedding.
TableTime table_time(const Sharing& x, const Sharing& layer, const LayerCost& user, const ParameterElements& elements,
                     ChunkEdges edges);

/// Describes a message of a collective at the end or the beginning of a step, as it is emitted. Callers add it up or
/// write it into a program.
struct StepMessage {
  CollectiveKind kind;
  GroupKind group;
  const Group& placed;
  double bytes;
  double message_bytes;  ///< size of the messages that the engine sends; 0: one message
};

/// Distinguishes one message from bytes that are cut in an unknown way. For the latter, seconds are the least that
/// any cut takes (collective.h).
enum class Cut : std::uint8_t { none, any };

/// Returns the seconds of a message over the levels of data-parallel collectives.
double message_s(const Fabric& fabric, const StepMessage& message, Cut cut = Cut::none);

/// Returns the bytes of the message that pass a rank.
double passing(const Fabric& fabric, const StepMessage& message);

/// Emits the messages of one bucket of the step-end communication of `dense` and `expert` elements, which are cut
/// into `buckets`. Without ZeRO the reduction is an all-reduce. ZeRO 1 reduce-scatters in the shard group and
/// all-reduces the shard over the replicas. Where the shard group reduces per micro-batch (ZeRO ≥ 2), only the
/// replicas' part is left.
template <class Emit>
void each_reduction(const Sharing& x, double dense, double expert, double buckets, const Emit& emit) {
  const auto one = [&](const Group& shard, const Group& replica, GroupKind shard_kind, GroupKind replica_kind, double bytes) {
    if (bytes <= 0) return;
    if (!x.groups.sharded) {
      emit(StepMessage{CollectiveKind::all_reduce, shard_kind, shard, bytes,
                       x.s.overlap.grad_reduce ? x.c.engine->eager.reduce_bucket_bytes : 0.0});
      return;
    }
    if (x.s.zero == ZeroStage::optimizer)
      emit(StepMessage{x.c.engine->eager.zero1_all_reduces ? CollectiveKind::all_reduce : CollectiveKind::reduce_scatter,
                       shard_kind, shard, bytes, 0});
    emit(StepMessage{CollectiveKind::all_reduce, replica_kind, replica, bytes / static_cast<double>(shard.size), 0});
  };
  one(x.groups.shard, x.groups.replica, GroupKind::data_shard, GroupKind::data_replica, dense * x.states.reduce / buckets);
  one(x.groups.expert_shard, x.groups.expert_replica, GroupKind::expert_shard, GroupKind::expert_replica,
      expert * x.states.reduce / buckets);
}

/// Emits the messages of the gather of parameters in the same way.
template <class Emit>
void each_gather(const Sharing& x, double dense, double expert, double buckets, const Emit& emit) {
  const double dense_bytes = dense * x.states.gather / buckets, expert_bytes = expert * x.states.gather / buckets;
  if (dense_bytes > 0) emit(StepMessage{CollectiveKind::all_gather, GroupKind::data_shard, x.groups.shard, dense_bytes, 0});
  if (expert_bytes > 0)
    emit(StepMessage{CollectiveKind::all_gather, GroupKind::expert_shard, x.groups.expert_shard, expert_bytes, 0});
}

/// Return the seconds of one bucket of the reduction and of the gather.
double reduce_bucket_s(const Sharing& x, double dense, double expert, double buckets, Cut cut = Cut::none);
double gather_bucket_s(const Sharing& x, double dense, double expert, double buckets, Cut cut = Cut::none);

/// Return the bytes that pass a rank in one bucket of either (collective.h, moved_bytes).
double reduce_bucket_bytes(const Sharing& x, double dense, double expert, double buckets);
double gather_bucket_bytes(const Sharing& x, double dense, double expert, double buckets);

/// Returns the seconds of one exchange of the table's gradient between the stages that hold a copy; 0 for one stage.
/// Two stages send each other what they have, both ways at once. Three all-reduce it over the slowest link among
/// them.
double table_exchange_s(const Sharing& x, const Schedule& schedule, const std::vector<ChunkId>& copies);
/// Returns the bytes that a rank puts into that exchange.
double table_exchange_bytes(const Sharing& x);

/// Returns the seconds of the sums that a tensor group makes once a step for the layers of a chunk, with one message
/// per group (TensorSync).
double tensor_sync_s(const Sharing& x, const TensorSync& sync, Cut cut = Cut::none);

/// Returns the nanoseconds of a message of `bytes` that crosses `level` of the fabric on its way to the next stage,
/// sent under strategy `s`.
std::int64_t message_ns(const CostContext& c, const Strategy& s, double bytes, int level);
/// Returns the nanoseconds of the message that enters chunk i from another stage; 0 from the same stage. The message
/// has `bytes`, as the last layer before the chunk leaves it, and is sent under `sender`. Its gradient takes as long
/// on the way back.
std::int64_t transfer_ns(const CostContext& c, const Strategy& sender, std::int64_t bytes, const Schedule& schedule,
                         std::int32_t i);

/// Returns the part of `reduce_ns` for which the end of the step waits. `reduce_ns` is one bucket of a reduction that
/// overlaps the backward pass of a chunk with `elements`.
std::int64_t late_reduction_ns(const CostContext& c, const Strategy& first, std::int32_t chunks,
                               const ParameterElements& elements, std::int64_t reduce_ns);

/// Return the bytes that the update of `e` moves, and the time of an update that moves `bytes`.
double update_bytes(const EngineModel& engine, const StatePolicy& p, const ParameterElements& e, const Strategy& s);
double optimizer_s(const DeviceCost& device, const EngineModel& engine, double bytes);
/// Returns the end of the step of a stage whose update moves `bytes`, without communication. `step_host` receives the
/// host's work, which is part of its compute.
PhaseTime optimizer_time(const DeviceCost& device, const EngineModel& engine, double bytes, Nanoseconds& step_host);

/// Returns the bytes of logit gradients that wait on the last stage for their weight gradient; `layers` are priced
/// under the strategy of the head.
std::int64_t deferred_bytes(const Model& model, const EngineModel& engine, const Schedule& schedule,
                            const std::vector<LayerCost>& layers);

}  // namespace espalier::cost
