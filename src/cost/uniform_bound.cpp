// SPDX-License-Identifier: Apache-2.0
#include "cost/uniform_bound.h"

#include <algorithm>

#include "base/invariant.h"
#include "cost/bound_formulas.h"
#include "cost/offload.h"
#include "cost/zero_buffers.h"
#include "plan/engine.h"
#include "plan/shared_table.h"

namespace espalier::cost {

/// Holds the request, and what it decides of the program's structure.
struct UniformBound::Call {
  const Schedule& schedule;
  const SplitTable& split;
  const std::vector<LayerCost>& layers;
  DataStream stream;
  std::int64_t pass;  ///< framework overhead of one pass
  Sharing sharing;    ///< its groups are placed where they are needed
  bool reduces, overlaps_reduce, gathers, overlaps_gather;

  Call(const CostContext& c, const Strategy& s, const Schedule& at, const SplitTable& of, const std::vector<LayerCost>& costs,
       DataStream counted)
      : schedule(at),
        split(of),
        layers(costs),
        stream(counted),
        pass(pass_ns(c.device, *c.engine, at.virtual_stages)),
        sharing{c, s, states_of(*c.engine, c.workload.training), {}} {
    const bool all = stream == DataStream::counted;
    reduces = all && reduces_gradients(c.workload.experts, s);
    overlaps_reduce = reduces && s.overlap.grad_reduce;
    gathers = all && gathers_parameters(s);
    overlaps_gather = gathers && s.overlap.param_gather;
    if (s.shards_gradients() || reduces || gathers) sharing.groups = data_groups(c.fabric, s, schedule.stages);
    if (s.shards_parameters()) sharing.groups.gathers_again = gathers_again(c, s, schedule.stages, layers);
  }
  [[nodiscard]] const CostContext& context() const { return sharing.c; }
  [[nodiscard]] const Strategy& strategy() const { return sharing.s; }
  [[nodiscard]] std::int32_t chunks() const { return split.chunks(); }
  [[nodiscard]] ChunkEdges edges() const { return stream == DataStream::free ? ChunkEdges::free : ChunkEdges::exposed; }
  [[nodiscard]] std::int64_t buckets(std::int32_t i) const {
    if (!overlaps_reduce && !overlaps_gather) return 1;
    return std::clamp(split.layer_counts()[static_cast<std::size_t>(i)], 1, kMaxBuckets);
  }
  [[nodiscard]] std::int32_t last_kind(std::int32_t i) const { return split.runs(i).back().kind; }
};

/// Provides the times under the names of the formulas.
struct UniformBound::Times {
  const UniformBound& b;
  const Call& call;
  std::int64_t tied = 0;
  [[nodiscard]] const Chunk& at(std::int32_t c) const {
    return b.chunks_[static_cast<std::size_t>(b.class_of_[static_cast<std::size_t>(c)])];
  }
  [[nodiscard]] const Schedule& schedule() const { return call.schedule; }
  [[nodiscard]] std::int64_t forward(std::int32_t c) const { return at(c).forward; }
  [[nodiscard]] std::int64_t backward(std::int32_t c) const { return at(c).backward; }
  [[nodiscard]] std::int64_t weight(std::int32_t c) const { return at(c).weight; }
  [[nodiscard]] std::int64_t down(std::int32_t c) const { return b.transfers_[static_cast<std::size_t>(c)]; }
  [[nodiscard]] std::int64_t up(std::int32_t c) const { return b.transfers_[static_cast<std::size_t>(c)]; }
  [[nodiscard]] std::int64_t reduce(std::int32_t c) const { return at(c).reduce; }
  [[nodiscard]] std::int64_t gather(std::int32_t c) const { return at(c).gather; }
  [[nodiscard]] std::int64_t buckets(std::int32_t c) const { return at(c).buckets; }
  [[nodiscard]] std::int64_t optimizer(std::int32_t stage) const { return b.optimizers_[static_cast<std::size_t>(stage)]; }
  [[nodiscard]] std::int64_t tied_reduce() const { return tied; }
  [[nodiscard]] const std::vector<ChunkId>& table_chunks() const { return b.table_chunks_; }
  [[nodiscard]] bool reduce_gradients() const { return call.reduces; }
  [[nodiscard]] bool overlap_reduce() const { return call.overlaps_reduce; }
  [[nodiscard]] bool gather_parameters() const { return call.gathers; }
  [[nodiscard]] bool overlap_gather() const { return call.overlaps_gather; }
  [[nodiscard]] bool overlap_p2p() const { return call.strategy().overlap.p2p; }
};

std::int64_t UniformBound::ns(const CostContext& c, const Strategy& s, const Schedule& schedule, const SplitTable& split,
                              const std::vector<LayerCost>& layers, DataStream stream) {
  ESPALIER_CHECK(split.chunks() == schedule.chunks() && layers.size() == c.workload.model->kinds.size());
  const Call call(c, s, schedule, split, layers, stream);
  espalier::table_chunks(*c.workload.model, schedule, split.layer_counts(), table_chunks_);
  time_layers(call);
  const auto chunks = static_cast<std::size_t>(call.chunks());
  chunks_.resize(std::max(chunks_.size(), chunks));
  class_of_.resize(chunks);
  for (std::int32_t i = 0; i < call.chunks(); ++i) {
    const bool copy = holds_copy(table_chunks_, ChunkId(i));
    const std::int32_t like = copy ? i : split.twin(i);
    class_of_[static_cast<std::size_t>(i)] = like;
    if (like == i) sum(call, i, copy, chunks_[static_cast<std::size_t>(i)]);
  }
  place(call);
  send(call);
  update(call);
  Times times{*this, call};
  if (!table_chunks_.empty()) times.tied = round_ns(table_exchange_s(call.sharing, schedule, table_chunks_));
  return iteration_bound_ns(times);
}

void UniformBound::time_layers(const Call& call) {
  const CostContext& c = call.context();
  const Strategy& s = call.strategy();
  const std::size_t kinds = call.layers.size();
  layers_.resize(kinds);
  const bool copies = copies_in_passes(s.offload);
  if (s.shards_gradients()) zero_.resize(kinds);
  if (copies && !s.shards_gradients()) zero_.assign(kinds, ZeroTime{});
  for (std::size_t k = 0; k < kinds; ++k) {
    const LayerCost& l = call.layers[k];
    Layer& t = layers_[k];
    t.forward = l.forward.duration_ns();
    t.recompute_full = l.recompute_full().duration_ns();
    t.backward = t.backward_again = l.backward.duration_ns();
    t.recompute_selective = l.recompute_selective.duration_ns();
    t.input = l.backward_input.duration_ns();
    t.weight = l.backward_weight.duration_ns();
    if (!s.shards_gradients()) continue;
    zero_[k] = zero_time(c, call.sharing.groups, s, call.sharing.states, l, call.edges());
    t.forward += zero_[k].forward.duration_ns();
    t.backward += zero_[k].backward.duration_ns();
    t.backward_again += zero_[k].backward_again.duration_ns();
  }
  host_.fill(c, s, call.sharing.states, call.layers, copies ? zero_.data() : nullptr);
}

void UniformBound::Copied::add(const HostCopies& host, std::int64_t n) {
  forward += n * host.forward.duration_ns() + (empty ? host.first_up_ns : 0);
  backward += n * host.backward.duration_ns() + (empty ? host.first_down_ns : 0);
  last_forward = host.last_down_ns;
  last_backward = host.last_up_ns;
  empty = false;
}

void UniformBound::sum(const Call& call, std::int32_t i, bool copy, Chunk& chunk) const {
  const CostContext& c = call.context();
  const bool split = splits_backward(call.schedule.kind);
  const auto& runs = call.split.runs(i);
  chunk = Chunk{};
  chunk.buckets = call.buckets(i);
  Copied copied;
  each_run(*c.workload.model, runs, call.strategy().recompute, [&](std::int32_t kind, std::int64_t n, RecomputeKind how) {
    if (host_.any()) copied.add(host_.of(kind, how), n);
    const Layer& l = layers_[static_cast<std::size_t>(kind)];
    const bool again = how == RecomputeKind::full;
    const std::int64_t more = how == RecomputeKind::none ? 0 : again ? l.recompute_full : l.recompute_selective;
    chunk.forward += n * l.forward;
    chunk.backward += n * (more + (split ? l.input : again ? l.backward_again : l.backward));
    chunk.weight += n * l.weight;
  });
  TensorSync sums;
  for (const SplitTable::Run& run : runs) {
    const LayerCost& l = call.layers[static_cast<std::size_t>(run.kind)];
    chunk.elements += l.elements().times(run.layers);
    chunk.waited += l.gradient_sync_ns * run.layers;
    sums += l.tensor_sync.times(run.layers);
  }
  chunk.forward += call.pass + copied.forward + copied.last_forward;
  chunk.backward += call.pass + copied.backward + copied.last_backward;
  if (call.strategy().shards_gradients()) {
    const ZeroTime& first = zero_[static_cast<std::size_t>(runs.front().kind)];
    chunk.forward += first.gather_ns;
    if (!split) chunk.backward += first.reduce_ns;
  }
  if (copy) add_copy(call, i, chunk);
  end_step(call, sums, chunk);
}

/// Adds a copy of the token table, as ChunkSum::add_table does.
void UniformBound::add_copy(const Call& call, std::int32_t i, Chunk& chunk) const {
  const CostContext& c = call.context();
  const std::int32_t user = table_layer(*c.workload.model, call.split.first(i), call.split.last(i));
  const auto kind = static_cast<std::size_t>(c.workload.model->layers[static_cast<std::size_t>(user)]);
  const ParameterElements elements = table_elements(*c.workload.model, *c.engine, c.workload.training, call.strategy());
  chunk.elements += elements;
  if (!call.strategy().shards_gradients() && !copies_in_passes(call.strategy().offload)) return;
  const TableTime table = table_time(call.sharing, call.sharing, call.layers[kind], elements, call.edges());
  const ZeroTime& z = table.zero;
  const bool leads = user == call.split.first(i);
  chunk.forward += z.forward.duration_ns() + table.host.forward.duration_ns() + (leads ? z.gather_ns : 0);
  if (splits_backward(call.schedule.kind)) return;
  chunk.backward += z.backward.duration_ns() + table.host.backward.duration_ns() + (leads ? z.reduce_ns : 0);
}

/// Adds what the step ends with: one bucket of the reduction and of the gather, and what the update waits for.
void UniformBound::end_step(const Call& call, const TensorSync& sums, Chunk& chunk) const {
  const CostContext& c = call.context();
  chunk.waited += round_ns(tensor_sync_s(call.sharing, sums));
  const auto dense = static_cast<double>(chunk.elements.dense), expert = static_cast<double>(chunk.elements.expert);
  const auto buckets = static_cast<double>(chunk.buckets);
  if (call.gathers) chunk.gather = round_ns(gather_bucket_s(call.sharing, dense, expert, buckets));
  if (!call.reduces) return;
  chunk.reduce = round_ns(reduce_bucket_s(call.sharing, dense, expert, buckets));
  if (!call.overlaps_reduce) return;
  const std::int64_t late = late_reduction_ns(c, call.strategy(), call.chunks(), chunk.elements, chunk.reduce);
  chunk.reduce -= late;
  chunk.waited += late * chunk.buckets;
}

/// Finds the level of the fabric between neighbouring stages.
void UniformBound::place(const Call& call) {
  const Strategy& s = call.strategy();
  const Pipeline here{s.tp, s.cp, s.dp, call.schedule.stages, s.order};
  if (here == placed_) return;
  placed_ = here;
  levels_.resize(static_cast<std::size_t>(here.stages));
  for (std::int32_t i = 0; i < here.stages; ++i)
    levels_[static_cast<std::size_t>(i)] =
        stage_link_level(call.context().fabric.levels, s, here.stages, i, i + 1 < here.stages ? i + 1 : 0);
}

/// Prices the messages, which do not depend on shard groups, overlaps and recomputation.
void UniformBound::send(const Call& call) {
  const CostContext& c = call.context();
  asked_.pipeline = placed_;
  asked_.kind = call.schedule.kind;
  asked_.sp = call.strategy().sp;
  asked_.partitioned = !call.strategy().partition.empty();
  asked_.split = &call.split;
  asked_.bytes.clear();
  for (const LayerCost& l : call.layers) asked_.bytes.push_back(l.boundary_bytes);
  if (asked_ == sent_) return;
  sent_ = asked_;
  const std::size_t depth = c.fabric.levels.size();
  messages_.assign(call.layers.size() * depth, -1);
  transfers_.assign(static_cast<std::size_t>(call.chunks()), 0);
  for (std::int32_t i = 1; i < call.chunks(); ++i) {
    const std::int32_t from = place_of_chunk(call.schedule, i - 1).stage, to = place_of_chunk(call.schedule, i).stage;
    if (from == to) continue;
    const std::int32_t before = from == call.schedule.stages - 1 && to == 0 ? from : std::min(from, to);
    const auto level = static_cast<std::size_t>(levels_[static_cast<std::size_t>(before)]);
    const auto kind = static_cast<std::size_t>(call.last_kind(i - 1));
    std::int64_t& known = messages_[kind * depth + level];
    if (known < 0)
      known = message_ns(c, call.strategy(), static_cast<double>(call.layers[kind].boundary_bytes), static_cast<int>(level));
    transfers_[static_cast<std::size_t>(i)] = known;
  }
}

/// Prices the end of the step of each stage. Neighbours that hold equally much update in equal time.
void UniformBound::update(const Call& call) {
  const CostContext& c = call.context();
  optimizers_.resize(static_cast<std::size_t>(call.schedule.stages));
  ParameterElements before{-1, -1};
  std::int64_t whole = 0;
  for (std::int32_t i = 0; i < call.schedule.stages; ++i) {
    ParameterElements held;
    std::int64_t waited = 0;
    for (std::int32_t k = 0; k < call.schedule.virtual_stages; ++k) {
      const auto chunk = static_cast<std::size_t>(pipeline_chunk(call.schedule, i, k));
      const Chunk& x = chunks_[static_cast<std::size_t>(class_of_[chunk])];
      held.dense += x.elements.dense;
      held.expert += x.elements.expert;
      waited += x.waited;
    }
    if (held.dense != before.dense || held.expert != before.expert)
      whole = round_ns(optimizer_s(c.device, *c.engine, update_bytes(*c.engine, call.sharing.states, held, call.strategy()))) +
              least_host_ns(host_update(c.device.host, call.sharing.states, held, call.strategy()), *c.engine);
    before = held;
    optimizers_[static_cast<std::size_t>(i)] = whole + waited;
  }
}

}  // namespace espalier::cost
