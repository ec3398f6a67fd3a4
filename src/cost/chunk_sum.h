// SPDX-License-Identifier: Apache-2.0
// The costs of a strategy that every layer shares (StrategyCost), and layers summed into a chunk (ChunkSum). Internal
// to cost/: price.h and layer_share.h are made of it.
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

inline constexpr int kPassLaunches = 4;

/// A strategy with the groups in which it shares states.
struct Sharing {
  const CostContext& c;
  const Strategy& s;
  StatePolicy states;
  DataGroups groups;
};

/// By kind and how its blocks are recomputed; empty where passes copy nothing.
class LayerCopies {
 public:
  /// Of the layers of a strategy; `zero`: what they communicate beside.
  void fill(const CostContext& c, const Strategy& s, const StatePolicy& states, const std::vector<LayerCost>& layers,
            const ZeroTime* zero);
  [[nodiscard]] bool any() const { return !copies_.empty(); }
  [[nodiscard]] const HostCopies& of(std::int32_t kind, RecomputeKind how) const {
    return copies_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(how)];
  }

 private:
  std::vector<std::array<HostCopies, 3>> copies_;
};

/// What one strategy costs everywhere: its layers, its data-parallel groups, its ZeRO communication, its copies to and
/// from the host.
struct StrategyCost : Sharing {
  const std::vector<LayerCost>& layers;
  std::array<ZeroTime, kMaxKinds> zero;
  LayerCopies host;
};

StrategyCost strategy_cost_of(const CostContext& c, const Strategy& s, std::int32_t stages, const std::vector<LayerCost>& layers,
                              ChunkEdges edges);

/// Framework overhead of one pass of one micro-batch through one of the `chunks` chunks of a stage. What the host does
/// for a micro-batch beside launches (data, loss, logging) it does once a stage: interleaving shares it among the
/// chunks.
inline std::int64_t pass_ns(const DeviceCost& device, const EngineModel& engine, std::int32_t chunks) {
  // What happens between layers is PyTorch's, whatever modules they are made of. Measured: in micro_batch_s.
  const double launch = std::min(1.0, eager_share(engine)) * device.rates.launch;
  const double launches = engine.measured != nullptr ? 0.0 : kPassLaunches * launch;
  return round_ns(launches + engine.coefficients.micro_batch_s / (2.0 * chunks));
}

/// A pipeline chunk, summed over its layers.
struct ChunkTotal {
  PhaseTime forward;
  PhaseTime backward;        ///< input and weight gradients, recomputation included
  PhaseTime backward_input;  ///< zero-bubble split; backward_input + backward_weight ≈ backward
  PhaseTime backward_weight;
  /// Once a step, before the update: sums inside tensor groups (state_memory.h, operator partitions).
  std::int64_t gradient_sync_ns = 0;
  ParameterElements elements;  ///< of the chunk on a rank, before ZeRO
  PassBytes bytes;             ///< of one micro-batch
  std::int64_t hosted = 0;     ///< of one micro-batch, in host memory
};

/// What a copy of the token table costs beside the layer that uses it.
struct TableTime {
  ZeroTime zero;
  HostCopies host;
};

/// Sums layers into a chunk, in the order of the forward pass; memory as chunk_bytes.h counts it.
class ChunkSum {
 public:
  explicit ChunkSum(ChunkTotal& t) : t_(t) { t = ChunkTotal{}; }

  /// `n` consecutive layers of kind k; `how` they are recomputed (blocks only).
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
  /// Of a copy of the token table (`elements` of it on this rank) its ZeRO communication and copies beside the layer
  /// that uses it; `leads`: that layer is the first of its chunk.
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
  /// Communication before a layer that takes the activation in another layout.
  void redistribute(std::int64_t forward_ns, std::int64_t backward_ns) {
    t_.forward.exposed_ns += forward_ns;
    t_.backward.exposed_ns += backward_ns;
    t_.backward_input.exposed_ns += backward_ns;
  }
  /// `x`, `first`: strategy and kind of the first layer, whose gather nothing hides, and whose reduction comes last;
  /// `chunks` of a stage.
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

  /// Saved and transient at the fullest moment, forward or backward.
  [[nodiscard]] std::int64_t peak_bytes() const { return bytes_.peak(); }
  /// Of the layers so far.
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

/// Cost of a copy of the token table, next to the layer of cost `user`, priced under `layer`, that uses it and hides
/// its own collectives first.
/// `x`: under the strategy of the embedding.
TableTime table_time(const Sharing& x, const Sharing& layer, const LayerCost& user, const ParameterElements& elements,
                     ChunkEdges edges);

/// A message of a collective at the end or the beginning of a step, as it is emitted: to be added up, or to be written
/// into a program.
struct StepMessage {
  CollectiveKind kind;
  GroupKind group;
  const Group& placed;
  double bytes;
  double message_bytes;  ///< the engine sends messages of this size; 0: one
};

/// Whether bytes are one message, or cut into we know not how many: then seconds are those that any cut takes at least
/// (collective.h).
enum class Cut : std::uint8_t { none, any };

/// Seconds of a message over the levels of data-parallel collectives.
double message_s(const Fabric& fabric, const StepMessage& message, Cut cut = Cut::none);

/// Bytes of it that pass a rank.
double passing(const Fabric& fabric, const StepMessage& message);

/// Emits the messages of one bucket of the step-end communication of `dense` and `expert` elements that is cut into
/// `buckets`.
/// Reduction: all-reduce without ZeRO; reduce-scatter in the shard group and all-reduce of the shard over the replicas
/// with ZeRO 1; the replicas' part alone when the shard group reduces per micro-batch (ZeRO ≥ 2).
template <class Emit>
void each_reduction(const Sharing& x, double dense, double expert, double buckets, const Emit& emit) {
  const auto one = [&](const Group& shard, const Group& replica, GroupKind shard_kind, GroupKind replica_kind, double bytes) {
    if (bytes <= 0) return;
    if (!x.groups.sharded) {
      emit(StepMessage{CollectiveKind::all_reduce, shard_kind, shard, bytes,
                       x.s.overlap.grad_reduce ? x.c.engine->communication.reduce_bucket_bytes : 0.0});
      return;
    }
    if (x.s.zero == ZeroStage::optimizer)
      emit(StepMessage{x.c.engine->communication.zero1_all_reduces ? CollectiveKind::all_reduce : CollectiveKind::reduce_scatter,
                       shard_kind, shard, bytes, 0});
    emit(StepMessage{CollectiveKind::all_reduce, replica_kind, replica, bytes / static_cast<double>(shard.size), 0});
  };
  one(x.groups.shard, x.groups.replica, GroupKind::data_shard, GroupKind::data_replica, dense * x.states.reduce / buckets);
  one(x.groups.expert_shard, x.groups.expert_replica, GroupKind::expert_shard, GroupKind::expert_replica,
      expert * x.states.reduce / buckets);
}

/// The same of the gather of parameters.
template <class Emit>
void each_gather(const Sharing& x, double dense, double expert, double buckets, const Emit& emit) {
  const double dense_bytes = dense * x.states.gather / buckets, expert_bytes = expert * x.states.gather / buckets;
  if (dense_bytes > 0) emit(StepMessage{CollectiveKind::all_gather, GroupKind::data_shard, x.groups.shard, dense_bytes, 0});
  if (expert_bytes > 0)
    emit(StepMessage{CollectiveKind::all_gather, GroupKind::expert_shard, x.groups.expert_shard, expert_bytes, 0});
}

/// Seconds of one bucket of either.
double reduce_bucket_s(const Sharing& x, double dense, double expert, double buckets, Cut cut = Cut::none);
double gather_bucket_s(const Sharing& x, double dense, double expert, double buckets, Cut cut = Cut::none);

/// Bytes that pass a rank in one bucket of either (collective.h, moved_bytes).
double reduce_bucket_bytes(const Sharing& x, double dense, double expert, double buckets);
double gather_bucket_bytes(const Sharing& x, double dense, double expert, double buckets);

/// Seconds of one exchange of the table's gradient between the stages that hold a copy: two of them send each other
/// what they have, both ways at once; three all-reduce it over the slowest link among them. 0 for one.
double table_exchange_s(const Sharing& x, const Schedule& schedule, const std::vector<ChunkId>& copies);
/// Bytes that a rank puts into it.
double table_exchange_bytes(const Sharing& x);

/// Seconds of what a tensor group sums once a step for the layers of a chunk, as one message a group (TensorSync).
double tensor_sync_s(const Sharing& x, const TensorSync& sync, Cut cut = Cut::none);

/// Nanoseconds of a message of `bytes` that crosses `level` of the fabric on its way to the next stage, sent under
/// strategy `s`.
std::int64_t message_ns(const CostContext& c, const Strategy& s, double bytes, int level);
/// Nanoseconds of the message that enters chunk i from another stage, as the last layer before it, sent under `sender`,
/// leaves it: `bytes`. Its gradient takes as long on the way back. 0 from the same stage.
std::int64_t transfer_ns(const CostContext& c, const Strategy& sender, std::int64_t bytes, const Schedule& schedule,
                         std::int32_t i);

/// Of `reduce_ns`, a bucket of a reduction beside the backward pass of a chunk that holds `elements`, what the end of
/// the step waits for.
std::int64_t late_reduction_ns(const CostContext& c, const Strategy& first, std::int32_t chunks,
                               const ParameterElements& elements, std::int64_t reduce_ns);

/// Bytes that the update of `e` moves, and the time of an update that moves `bytes`.
double update_bytes(const EngineModel& engine, const StatePolicy& p, const ParameterElements& e, const Strategy& s);
double optimizer_s(const DeviceCost& device, const EngineModel& engine, double bytes);
/// The end of the step of a stage whose update moves `bytes`, without communication; `step_host` of its compute is the
/// host's work.
PhaseTime optimizer_time(const DeviceCost& device, const EngineModel& engine, double bytes, Nanoseconds& step_host);

/// Logit gradients that wait on the last stage for their weight gradient; `layers` under the strategy of the head.
std::int64_t deferred_bytes(const Model& model, const EngineModel& engine, const Schedule& schedule,
                            const std::vector<LayerCost>& layers);

}  // namespace espalier::cost
