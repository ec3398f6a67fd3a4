// SPDX-License-Identifier: Apache-2.0
#include "check/chunk_time.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/invariant.h"
#include "check/expert_instances.h"
#include "check/held_by_zero.h"
#include "check/layer_time.h"
#include "check/messages.h"
#include "check/saved_activations.h"
#include "check/static_memory.h"
#include "plan/engine.h"
#include "plan/transformer_engine.h"
#include "profile/measured_operators.h"

namespace espalier::check {
namespace {

/// Returns the number of parts into which a tensor group cuts a message between stages; the ranks gather them again.
/// 1: uncut.
double message_parts(const View& view, const Strategy& s) {
  const bool cut = view.engine.communication.scattered_messages && s.sp == SequenceParallel::none && s.partition.empty();
  return cut ? static_cast<double>(s.tp) : 1.0;
}

/// Holds the data-parallel groups of one strategy.
struct StrategyGroups {
  RankGroup shard, replicas, expert_shard, expert_replicas;
  bool sharded = false;
};

class PlanClock {
 public:
  PlanClock(const View& view, End end)
      : view_(view),
        end_(end),
        kernels_(view),
        plain_(view, 1.0, end),
        tensor_(view, view.engine.coefficients.tensor_communication, end),
        data_(view, view.engine.coefficients.data_communication, end),
        bytes_(bytes_of(view)) {}

  PlanTime run(const std::vector<std::int32_t>& buckets) {
    ESPALIER_CHECK(buckets.size() == view_.chunks.size());
    PlanTime time;
    const std::vector<std::int64_t> messages = boundary_bytes_per_chunk(view_);
    for (std::size_t c = 0; c < view_.chunks.size(); ++c) {
      time.chunks.push_back(chunk(c, buckets[c]));
      if (c > 0) time.chunks.back().message = message(c, static_cast<double>(messages[c]));
    }
    for (std::int32_t i = 0; i < view_.stages; ++i) time.stages.push_back({update(i), shared_table()});
    return time;
  }

 private:
  [[nodiscard]] bool most() const { return end_ == End::most; }

  const LayerTime& layer(const Strategy& s, std::int32_t index) {
    const std::int32_t kind = view_.model->layers[static_cast<std::size_t>(index)];
    const auto [at, fresh] = layers_.try_emplace({s, kind});
    if (fresh)
      at->second = layer_time(view_of(view_, s), kernels_, tensor_, view_.model->layer(static_cast<std::size_t>(index)), end_);
    return at->second;
  }

  const StrategyGroups& groups(const Strategy& s) {
    const auto [at, fresh] = groups_.try_emplace(s);
    if (!fresh) return at->second;
    const View view = view_of(view_, s);
    StrategyGroups& g = at->second;
    g.sharded = s.shards_optimizer();
    g.shard = data_.shard(view);
    g.replicas = data_.replicas(view);
    const std::int64_t stride = std::int64_t{s.ep} * s.etp, all = s.expert_data_ranks();
    const std::int64_t shard = g.sharded ? expert_shard(s) : all;
    g.expert_shard = data_.group(view, shard, stride);
    g.expert_replicas = data_.group(view, all / shard, stride * shard);
    return g;
  }

  double twice_of(const Strategy& s) {
    const auto [at, fresh] = twice_.try_emplace(s, 1.0);
    if (fresh) at->second = gathered_twice(view_, s);
    return at->second;
  }

  /// Returns the seconds of the gradient reduction at the end of a step, for `dense` and `expert` bytes.
  double reduction(const Strategy& s, double dense, double expert) {
    const StrategyGroups& g = groups(s);
    const auto one = [&](const RankGroup& shard, const RankGroup& replicas, double bytes) {
      if (bytes <= 0) return 0.0;
      if (!g.sharded) {
        const double bucket = s.overlap.grad_reduce && most() ? view_.engine.eager.reduce_bucket_bytes : 0;
        return bucket > 0 && bytes > bucket ? bytes / bucket * data_.reduce(shard, bucket, Sizes::any)
                                            : data_.reduce(shard, bytes, Sizes::any);
      }
      double time = data_.reduce(replicas, bytes / static_cast<double>(shard.size), Sizes::any);
      if (s.zero == ZeroStage::optimizer)
        time += view_.engine.eager.zero1_all_reduces ? data_.reduce(shard, bytes, Sizes::any)
                                                     : data_.gather(shard, bytes, Sizes::any);
      return time;
    };
    return one(g.shard, g.replicas, dense) + one(g.expert_shard, g.expert_replicas, expert);
  }

  double gathering(const Strategy& s, double dense, double expert, Sizes sizes) {
    const StrategyGroups& g = groups(s);
    return data_.gather(g.shard, dense, sizes) + data_.gather(g.expert_shard, expert, sizes);
  }

  /// Returns the seconds to gather a layer under ZeRO 3: trained weights, and frozen weights in their stored type.
  double gathering_layer(const Strategy& s, const StageElements& e) {
    return gathering(s, static_cast<double>(bytes_.gather * e.dense + e.frozen_dense),
                     static_cast<double>(bytes_.gather * e.expert + e.frozen_expert), Sizes::known);
  }

  /// Returns the seconds to scatter the gradients of one layer under ZeRO ≥ 2. Arguments are elements. Replicas of
  /// shard groups meet once a step.
  double scattering(const Strategy& s, double dense, double expert) {
    const StrategyGroups& g = groups(s);
    return data_.gather(g.shard, dense * bytes_.reduce) + data_.gather(g.expert_shard, expert * bytes_.reduce);
  }

  [[nodiscard]] double hide(double communication, double compute) const {
    return most() ? communication : std::max(0.0, communication - compute);
  }

  /// Adds ZeRO ≥ 2 inside the passes of one layer: parameters gathered in both passes (ZeRO 3), gradients scattered.
  void add_zero(const Strategy& s, const LayerKind& kind, const LayerTime& t, bool again, ChunkTime& sum) {
    if (!s.shards_gradients()) return;
    const StageElements e = elements_of_layer(view_of(view_, s), kind);
    const auto dense = static_cast<double>(e.dense), expert = static_cast<double>(e.expert);
    const double gather = s.shards_parameters() ? gathering_layer(s, e) : 0;
    const double twice = twice_of(s), second = twice * gather;
    const double scatter = scattering(s, dense, expert);
    const bool gather_overlaps = s.overlap.param_gather, scatter_overlaps = s.overlap.grad_reduce;
    const double overlapped = (gather_overlaps ? second : 0) + (scatter_overlaps ? scatter : 0);
    sum.forward += gather_overlaps ? hide(gather, t.forward) : gather;
    const double frozen = static_cast<double>(e.frozen_dense + e.frozen_expert) / std::max(1, bytes_.gather);
    const double copies = (dense + expert) / kernels_.memory;
    const double gathered = (dense + expert + frozen) / kernels_.memory * view_.engine.kernels.gather_copy_bytes;
    if (s.shards_parameters()) sum.forward += gathered;
    if (!kind.backward) return;
    sum.backward += (gather_overlaps ? 0 : second) + (scatter_overlaps ? 0 : scatter) +
                    hide(overlapped, t.backward + (again ? t.forward : 0));
    if (s.shards_parameters()) sum.backward += twice * gathered;
    sum.backward += bytes_.reduce > 0 ? copies * view_.engine.kernels.reduce_copy_bytes : 0;
  }

  /// Returns the number of elements whose states a rank holds. Without ZeRO these are all.
  static double divided(const Strategy& s, double dense, double expert) {
    return s.shards_optimizer() ? dense / s.shard + expert / static_cast<double>(expert_shard(s)) : dense + expert;
  }

  /// Holds seconds of copies on a device's host link. Weights and saved activations move up, gradients down.
  struct Copies {
    double weights = 0, saved = 0, gradients = 0;
    double waited = 0;  ///< saved activations whose copies are exposed
  };

  Copies copies_of(const Strategy& s, const LayerKind& kind, RecomputeKind how) {
    Copies out;
    if (!offloads_activations(s.offload) && !offloads_parameters(s.offload)) return out;
    const double link = 0.8 * nodes_of(view_).host.link.count();
    const View under = view_of(view_, s);
    // Checkpoint offload exposes its copies.
    const bool waits = view_.engine.runs.offload_activations == ActivationOffload::checkpoints;
    (waits ? out.waited : out.saved) = static_cast<double>(hosted_bytes_of_layer(under, kind, how)) / link;
    if (!offloads_parameters(s.offload)) return out;
    const StageElements e = elements_of_layer(under, kind);
    const double held = divided(s, static_cast<double>(e.dense), static_cast<double>(e.expert));
    const double frozen = divided(s, static_cast<double>(e.frozen_dense), static_cast<double>(e.frozen_expert));
    out.weights = (held * bytes_.parameter + frozen) / link;
    out.gradients = kind.backward ? held * bytes_.gradient / link : 0;
    return out;
  }

  /// Adds the copies, which overlap all other work of a layer, including ZeRO traffic that `before` did not contain
  /// yet. Least: the longer direction minus the time that hides it. Most: nothing hides them, and the caller adds
  /// both edges of the chunk.
  void add_copies(const Copies& copies, bool backward, const ChunkTime& before, ChunkTime& sum) {
    const double all = copies.weights + copies.saved + copies.gradients;
    const double forward = std::max(copies.weights, copies.saved);
    sum.forward += copies.waited + (most() ? all : std::max(0.0, forward - (sum.forward - before.forward)));
    if (!backward) return;
    const double longer = std::max(copies.weights + copies.saved, copies.gradients);
    sum.backward += copies.waited + (most() ? all : std::max(0.0, longer - (sum.backward - before.backward)));
  }

  void add_range(const LayerRange& range, ChunkTime& sum) {
    const Strategy& s = range.strategy;
    std::int32_t blocks = 0;
    for (std::int32_t i = range.first; i <= range.last; ++i) {
      const LayerKind& kind = view_.model->layer(static_cast<std::size_t>(i));
      const bool block = kind.role == LayerRole::block;
      blocks += block ? 1 : 0;
      const LayerTime& t = layer(s, i);
      const bool full = block && kind.backward && s.recompute.kind == RecomputeKind::full && blocks <= s.recompute.layers;
      const bool some = block && s.recompute.kind == RecomputeKind::selective;
      const double more = full ? t.forward : some ? t.selective : 0;
      const bool again = block && s.recompute.kind == RecomputeKind::full && blocks <= s.recompute.layers;
      const Copies copies = copies_of(s, kind,
                                      again  ? RecomputeKind::full
                                      : some ? RecomputeKind::selective
                                             : RecomputeKind::none);
      const ChunkTime before = sum;
      sum.forward += t.forward;
      sum.backward += t.backward + more;
      sum.backward_input += t.backward_input + more;
      sum.backward_weight += t.backward_weight;
      add_zero(s, kind, t, full, sum);
      add_copies(copies, kind.backward, before, sum);
      if (most() && (i == range.first || i == range.last)) {
        sum.forward += copies.weights + copies.saved;
        sum.backward += copies.weights + copies.saved + copies.gradients;
      }
      ++sum.layers;
    }
  }

  /// Bounds the redistribution of a layer whose neighbour spreads the activation differently: at most all of it, over
  /// the slowest links.
  [[nodiscard]] double redistribution(const LayerRange& before, const LayerRange& range) const {
    if (!most() || before.strategy == range.strategy) return 0;
    const View alone = view_of(view_, range.strategy);
    const LayerKind& kind = view_.model->layer(static_cast<std::size_t>(before.last));
    const double tokens =
        static_cast<double>(layer_tokens(kind, view_.plan->training.sequence) + view_.plan->training.sequence.encoder);
    const double whole = kernels_.a * tokens * static_cast<double>(kind.hidden) * static_cast<double>(view_.samples);
    const Strategy& s = range.strategy;
    const RankGroup all = plain_.group(alone, std::int64_t{s.tp} * s.cp * s.dp, 1);
    return 2 * tensor_.gather(all, whole, Sizes::any) + 2 * tensor_.exchange(all, whole);
  }

  ChunkTime chunk(std::size_t c, std::int32_t buckets) {
    const Chunk& chunk = view_.chunks[c];
    ChunkTime sum;
    const LayerRange* before = c > 0 ? &view_.chunks[c - 1].ranges.back() : nullptr;
    for (const LayerRange& range : chunk.ranges) {
      add_range(range, sum);
      const double moved = before != nullptr ? redistribution(*before, range) : 0;
      sum.forward += moved;
      sum.backward += moved;
      sum.backward_input += moved;
      before = &range;
    }
    // PyTorch's launches between layers
    const double each = std::min(1.0, eager_share(view_)) * kernels_.launch;
    const double launches = view_.engine.measured != nullptr ? 0 : view_.figures.pass_launches * each;
    const double of_a_stage = view_.pipeline->schedule.virtual_stages;
    const double pass = launches + view_.engine.coefficients.micro_batch_s / 2 / of_a_stage;
    sum.forward += pass;
    sum.backward += pass;
    sum.backward_input += pass;
    if (most()) {
      add_edges(chunk.ranges.front(), sum);
      add_table_copy(c, sum);
    }
    add_collectives(c, buckets, sum);
    return sum;
  }

  /// Adds the first gather and the last reduction of a chunk. Nothing hides them.
  void add_edges(const LayerRange& first, ChunkTime& sum) {
    const Strategy& s = first.strategy;
    if (!s.shards_gradients()) return;
    const StageElements e = elements_of_layer(view_of(view_, s), view_.model->layer(static_cast<std::size_t>(first.first)));
    const auto dense = static_cast<double>(e.dense), expert = static_cast<double>(e.expert);
    sum.forward += s.shards_parameters() ? gathering_layer(s, e) : 0;
    sum.backward += scattering(s, dense, expert);
  }

  /// Adds the ZeRO collectives of a copy of the token table, exposed, and once more if its layer comes first. Their
  /// lower bound is zero.
  void add_table_copy(std::size_t c, ChunkTime& sum) {
    const Strategy& s = view_.chunks.front().ranges.front().strategy;
    const std::int32_t user = view_.stage_of[c] != view_.stage_of.front() ? table_user(view_, c) : -1;
    if (user < 0 || !s.shards_gradients()) return;
    const StageElements e = table_share(view_of(view_, s));
    const int times = user == view_.chunks[c].first() ? 2 : 1;
    const double gather = s.shards_parameters() ? gathering_layer(s, e) : 0;
    sum.forward += times * gather;
    sum.backward += twice_of(s) * gather + times * scattering(s, static_cast<double>(e.dense), static_cast<double>(e.expert));
  }

  /// Adds one bucket of the chunk's reductions and gathers, which run once a step. Ranges of several strategies
  /// reduce one after the other.
  void add_collectives(std::size_t c, std::int32_t buckets, ChunkTime& sum) {
    const double cut = buckets;
    for (const auto& [s, e] : elements_of_chunk(c)) {
      const bool reduces = (!s.shards_gradients() && (s.data_ranks() > 1 || s.expert_data_ranks() > 1)) ||
                           (s.shards_gradients() && s.shard < s.data_ranks());
      const bool gathers = s.zero == ZeroStage::optimizer || s.zero == ZeroStage::gradients;
      const auto dense = static_cast<double>(e.dense), expert = static_cast<double>(e.expert);
      // Latency counts once per bucket (most, or one strategy), or once for all buckets together (least).
      const double at_once = most() || view_.one_strategy ? 1 : cut;
      if (reduces)
        sum.reduction += reduction(s, at_once * dense * bytes_.reduce / cut, at_once * expert * bytes_.reduce / cut) / at_once;
      if (gathers)
        sum.gather +=
            gathering(s, at_once * dense * bytes_.gather / cut, at_once * expert * bytes_.gather / cut, Sizes::any) / at_once;
    }
  }

  /// Returns the parameters of a chunk by strategy, ignoring recomputation. The copy of a shared table is reduced
  /// with the last chunk.
  [[nodiscard]] std::vector<std::pair<Strategy, StageElements>> elements_of_chunk(std::size_t c) const {
    std::vector<std::pair<Strategy, StageElements>> all;
    const auto add = [&](Strategy s, const StageElements& e) {
      s.recompute = Recompute{};
      auto at = std::find_if(all.begin(), all.end(), [&](const auto& known) { return known.first == s; });
      if (at == all.end()) at = all.insert(all.end(), {s, {}});
      at->second += e;
    };
    for (const LayerRange& range : view_.chunks[c].ranges) {
      const View under = view_of(view_, range.strategy);
      for (std::int32_t i = range.first; i <= range.last; ++i)
        add(range.strategy, elements_of_layer(under, view_.model->layer(static_cast<std::size_t>(i))));
    }
    const Strategy& table = view_.chunks.front().ranges.front().strategy;
    const std::vector<std::int32_t> copies = table_copies(view_);
    if (most() && std::find(copies.begin(), copies.end(), view_.stage_of[c]) != copies.end())
      add(table, table_share(view_of(view_, table)));
    return all;
  }

  [[nodiscard]] double message(std::size_t c, double bytes) const {
    const std::int32_t from = view_.stage_of[c - 1], to = view_.stage_of[c];
    if (from == to) return 0;
    const View sender = view_of(view_, view_.chunks[c - 1].ranges.back().strategy);
    const double parts = message_parts(view_, sender.strategy);
    double time = plain_.message(sender, from, to, bytes / parts);
    if (parts > 1) time += tensor_.gather(tensor_.tensor(sender), bytes);
    return time + view_.engine.eager.message_host_calls * kernels_.call + view_.engine.eager.message_block_s;
  }

  /// Returns the bytes that the update of `e` moves.
  [[nodiscard]] double update_bytes(const Strategy& s, const StageElements& e) const {
    const double held = divided(s, static_cast<double>(e.dense), static_cast<double>(e.expert));
    const double whole = view_.engine.eager.whole_gradient_bytes * static_cast<double>(e.dense + e.expert);
    // The host has the gradients.
    if (offloads_parameters(s.offload)) return 0;
    if (offloads_optimizer(s.offload)) return (whole > 0 ? 0.0 : held * bytes_.gradient) + whole;  // the norm alone
    const double gradient = (whole > 0 ? 1.0 : 2.0) * bytes_.gradient;
    const double states = 2.0 * bytes_.master + 2.0 * bytes_.optimizer + (bytes_.master > 0 ? 1.0 : 2.0) * bytes_.parameter;
    return held * (gradient + states + view_.engine.kernels.update_copy_bytes) + whole;
  }

  /// Returns the seconds of an update on the host: gradients down the link, states there, parameters up (Ren et al.
  /// 2021). Least: the slower of update and upload where the engine overlaps them.
  [[nodiscard]] double host_update(const Strategy& s, const StageElements& e) const {
    if (!offloads_optimizer(s.offload)) return 0;
    const NodeGroup& node = nodes_of(view_);
    const double held = divided(s, static_cast<double>(e.dense), static_cast<double>(e.expert));
    const double link = view_.figures.host_link_share * node.host.link.count();
    const double memory =
        view_.figures.host_update_share * node.host.memory_bandwidth.count() / static_cast<double>(node.devices_per_node);
    const double down = held * bytes_.gradient / link, up = held * bytes_.parameter / link;
    const double twice = bytes_.master > 0 ? 1 : 2;
    const double update =
        held * (bytes_.gradient + 2.0 * bytes_.master + 2.0 * bytes_.optimizer + twice * bytes_.parameter) / memory;
    // The host also reads the gradients for their norm.
    if (offloads_parameters(s.offload)) return update + held * bytes_.gradient / memory;
    if (view_.engine.communication.overlaps_offload && !most()) return std::max(update, up);
    return down + update + up;
  }

  /// Returns the seconds to reduce gradients inside tensor groups: of norms and biases on sequence shards, of
  /// replicated key/value heads, and of partitioned operators.
  [[nodiscard]] double tensor_gradients(const LayerRange& range) const {
    const View under = view_of(view_, range.strategy);
    if (range.strategy.tp == 1) return 0;
    const RankGroup group = tensor_.tensor(under);
    double time = 0;
    for (std::int32_t i = range.first; i <= range.last; ++i) {
      const LayerKind& kind = view_.model->layer(static_cast<std::size_t>(i));
      double elements = 0;
      for (const Operator& op : kind.operators) {
        const bool keys = op.name.ends_with("kv");
        elements += static_cast<double>(op.parameters_unsplit) +
                    (keys || !range.strategy.partition.empty() ? static_cast<double>(op.parameters) : 0) +
                    static_cast<double>(op.adapter_parameters());
      }
      time +=
          tensor_.reduce(group, elements * bytes_.reduce, Sizes::any) + data_.reduce(group, elements * bytes_.reduce, Sizes::any);
    }
    return time;
  }

  double update(std::int32_t stage) {
    double bytes = 0, synchronised = 0, hosted = 0;
    for (std::size_t c = 0; c < view_.chunks.size(); ++c) {
      if (view_.stage_of[c] != stage) continue;
      for (const auto& [s, e] : elements_of_chunk(c)) {
        bytes += update_bytes(s, e);
        hosted += host_update(s, e);
      }
      for (const LayerRange& range : view_.chunks[c].ranges) synchronised += most() ? tensor_gradients(range) : 0;
    }
    const profile::MeasuredOperators* measured = view_.engine.measured.get();
    const double moved = measured != nullptr && measured->update_bytes_per_s > 0
                             ? bytes / measured->update_bytes_per_s / view_.speed
                             : kernels_.move(bytes) + view_.figures.update_launches * kernels_.launch;
    return moved + hosted + view_.engine.coefficients.step_s + synchronised;
  }

  /// Returns the seconds to exchange the shared table's gradient. At least one message, or a third of one among three
  /// stages; at most as many round trips as stages hold copies.
  [[nodiscard]] double shared_table() const {
    const std::vector<std::int32_t> copies = table_copies(view_);
    if (copies.empty()) return 0;
    const View table = view_of(view_, view_.chunks.front().ranges.front().strategy);
    const double bytes = static_cast<double>(table_elements(table)) * bytes_.reduce;
    double slowest = 0, fastest = std::numeric_limits<double>::infinity();
    for (std::size_t n = 0; n < copies.size(); ++n)
      for (std::size_t before = 0; before <= n; ++before) {  // the embedding's stage, then those of the copies before
        const std::int32_t from = before == 0 ? view_.stage_of.front() : copies[before - 1];
        const double message = plain_.message(table, from, copies[n], bytes);
        slowest = std::max(slowest, message);
        fastest = std::min(fastest, message);
      }
    if (most()) return 2 * static_cast<double>(copies.size()) * slowest;
    // A ring among three stages passes thirds, and its members may share links.
    return copies.size() == 1 ? slowest : fastest / 3;
  }

  const View& view_;
  End end_;
  Kernels kernels_;
  FabricTimes plain_, tensor_, data_;
  StatePolicy bytes_;
  std::map<std::pair<Strategy, std::int32_t>, LayerTime> layers_;
  std::map<Strategy, StrategyGroups> groups_;
  std::map<Strategy, double> twice_;  ///< part of the parameters that backward passes gather
};

}  // namespace

namespace {

/// Returns the seconds of a message between unlike stages. Least: the busier end, and the cheaper host calls. Most:
/// the calls of both hosts, and the receiver gathers a message that came in parts.
double unlike_message_s(const View& view, std::size_t c, double sent, double taken, End end) {
  const std::int32_t from = view.stage_of[c - 1], to = view.stage_of[c];
  if (from == to) return 0;
  const Strategy &sender = view.chunks[c - 1].ranges.back().strategy, &receiver = view.chunks[c].ranges.front().strategy;
  const double parts = message_parts(view, receiver);
  double time = unlike_message(view, from, to, std::max(sent / message_parts(view, sender), taken / parts));
  const View here = view_on(view, static_cast<std::size_t>(to));
  const double call = Kernels(here).call;
  const double other = Kernels(view_on(view, static_cast<std::size_t>(from))).call;
  const double calls = view.engine.eager.message_host_calls;
  time += view.engine.eager.message_block_s;
  time += calls * (end == End::least ? std::min(call, other) : call + other);
  if (end == End::least || parts <= 1) return time;
  const View under = view_of(here, receiver);
  const FabricTimes tensor(here, view.engine.coefficients.tensor_communication, end);
  return time + tensor.gather(tensor.tensor(under), taken);
}

/// Returns the seconds to exchange the gradient of a table that several stages hold. The lower bound takes the
/// fastest pair of stages: one message, or a third of one among three or more. The upper bound takes the slowest pair
/// and one round trip per copy.
double unlike_exchange_s(const View& view, End end) {
  const std::vector<std::int32_t> copies = table_copies(view);
  if (copies.empty()) return 0;
  const View table = view_of(view, view.chunks.front().ranges.front().strategy);
  const double bytes = static_cast<double>(table_elements(table)) * bytes_of(view).reduce;
  double slowest = 0, fastest = std::numeric_limits<double>::infinity();
  for (std::size_t n = 0; n < copies.size(); ++n)
    for (std::size_t before = 0; before <= n; ++before) {
      const std::int32_t from = before == 0 ? view.stage_of.front() : copies[before - 1];
      const double message = unlike_message(view, from, copies[n], bytes);
      slowest = std::max(slowest, message);
      fastest = std::min(fastest, message);
    }
  if (end == End::most) return 2 * static_cast<double>(copies.size()) * slowest;
  return copies.size() == 1 ? slowest : fastest / 3;
}

/// Returns the time of a plan whose stages are not alike. Every stage is timed as on its own group.
PlanTime unlike_time(const View& view, const std::vector<std::int32_t>& buckets, End end) {
  PlanTime out;
  out.chunks.resize(view.chunks.size());
  out.stages.resize(static_cast<std::size_t>(view.stages));
  each_group(view, [&](const View& alone, const auto& counts) {
    const PlanTime time = PlanClock(alone, end).run(buckets);
    for (std::size_t i = 0; i < out.stages.size(); ++i)
      if (counts(i)) out.stages[i] = time.stages[i];
    for (std::size_t c = 0; c < out.chunks.size(); ++c)
      if (counts(static_cast<std::size_t>(view.stage_of[c]))) out.chunks[c] = time.chunks[c];
  });
  const std::vector<std::int64_t> sent = boundary_bytes_per_chunk(view), taken = taken_bytes_per_chunk(view);
  for (std::size_t c = 1; c < out.chunks.size(); ++c)
    out.chunks[c].message = unlike_message_s(view, c, static_cast<double>(sent[c]), static_cast<double>(taken[c]), end);
  const double exchange = unlike_exchange_s(view, end);
  for (StageUpdateTime& stage : out.stages) stage.shared_table = exchange;
  return out;
}

}  // namespace

PlanTime plan_time(const View& view, const std::vector<std::int32_t>& buckets, End end) {
  if (!view.group_of_stage.empty()) return unlike_time(view, buckets, end);
  return PlanClock(view, end).run(buckets);
}

}  // namespace espalier::check
