// SPDX-License-Identifier: Apache-2.0
#include "cost/price.h"

#include <algorithm>
#include <deque>

#include "base/invariant.h"
#include "cost/cluster_costs.h"
#include "cost/price_parts.h"
#include "cost/rounding.h"
#include "cost/table_exchange.h"
#include "plan/engine.h"
#include "plan/shared_table.h"

namespace espalier::cost {

PriceScratch::PriceScratch() : state_(std::make_unique<State>()) {}
PriceScratch::~PriceScratch() = default;
PriceScratch::PriceScratch(PriceScratch&&) noexcept = default;
PriceScratch& PriceScratch::operator=(PriceScratch&&) noexcept = default;

namespace {

/// Returns table_exchange_s for stages on unequal devices.
double unlike_exchange_s(Pricing& p) {
  const std::vector<ChunkId>& copies = p.structure.table_chunks;
  const double bytes = table_exchange_bytes(p.under_embedding());
  if (copies.size() < 2 || bytes <= 0) return 0.0;
  const auto at = [&](ChunkId c) -> const StagePlace& { return (*p.places)[static_cast<std::size_t>(p.stage_of(c.value))]; };
  double longest = 0;
  for (const ChunkId a : copies)
    for (const ChunkId b : copies)
      if (a < b && p.stage_of(a.value) != p.stage_of(b.value))
        longest = std::max(longest, exchange_s({p.cluster->link(at(a), at(b))}, 0, copies.size(), bytes));
  return longest;
}

/// Prices the exchange of the gradient of a table that several stages hold.
void exchange_table(Pricing& p) {
  if (p.structure.table_chunks.empty()) return;
  const StrategyCost& embedding = p.under_embedding();
  const double seconds =
      p.places != nullptr ? unlike_exchange_s(p) : table_exchange_s(embedding, p.structure.schedule, p.structure.table_chunks);
  p.out.collectives[p.structure.tied_reduce()] = Nanoseconds(round_ns(seconds));
  // Two copies pass on what they hold, three do so in a ring.
  const double passes = p.structure.table_chunks.size() == 2 ? 1.0 : 4.0 / 3.0;
  p.out.slowdowns[p.structure.tied_reduce()] =
      embedding.c.device.interference().of(passes * table_exchange_bytes(embedding), seconds);
  if (p.program == nullptr) return;
  Collective& exchange = p.program->collectives[p.structure.tied_reduce()];
  exchange.parts_begin = static_cast<std::int32_t>(p.program->parts.size());
  CollectivePart part;
  part.kind = p.structure.table_chunks.size() == 2 ? CollectiveKind::point_to_point : CollectiveKind::all_reduce;
  part.group = GroupKind::table_copies;
  part.strategy = p.strategy_index(embedding.s);
  part.bytes = table_exchange_bytes(embedding);
  part.element_bytes = embedding.states.reduce;
  p.program->parts.push_back(part);
  exchange.parts_end = static_cast<std::int32_t>(p.program->parts.size());
}

/// Returns the time of the same transfer in an earlier interleaved round, because rounds repeat; −1: not known.
std::int64_t known_transfer_ns(Pricing& p, std::int32_t i, const RangeCost& sender, std::int64_t bytes) {
  const std::int32_t earlier = i - p.structure.schedule.stages;
  if (p.structure.schedule.kind != ScheduleKind::interleaved || earlier <= 0) return -1;
  const bool same = p.ranges(earlier - 1).back().strategy == sender.strategy && p.priced(earlier).boundary_bytes == bytes;
  return same ? p.priced(earlier).transfer_ns : -1;
}

/// Holds the time of a message between stages on unequal devices, or of unequal layout (cluster_costs.h). It is the
/// time that blocks the sender, and what the message takes beyond that.
struct TransferTime {
  std::int64_t sending_ns = 0, delay_ns = 0;
};

TransferTime unlike_transfer(const Pricing& p, const RangeCost& sender, const RangeCost& receiver, const StagePlace& from,
                             const StagePlace& to) {
  const EngineModel& engine = *p.c.engine;
  const auto parts = [&](const Strategy& s) {
    const bool scattered = engine.communication.scattered_messages && s.sp == SequenceParallel::none && s.partition.empty();
    return scattered ? s.tp : 1;
  };
  const auto kind = static_cast<std::size_t>(p.kind_of(sender.last));
  const auto sent = static_cast<double>((*sender.layers)[kind].boundary_bytes);
  const auto taken = static_cast<double>((*receiver.layers)[kind].boundary_bytes);
  const Fabric& fabric = p.on(receiver).fabric;
  const double gather = parts(*receiver.strategy) > 1
                            ? all_gather_s(fabric.tensor_levels, tp_group(fabric.placing(), *receiver.strategy), taken)
                            : 0.0;
  const double host = message_host_s(engine, std::max(p.on(sender).device.rates.call, p.on(receiver).device.rates.call));
  const double bytes = std::max(sent / parts(*sender.strategy), taken / parts(*receiver.strategy));
  FabricLevel link = p.cluster->link(from, to);
  TransferTime time;
  const bool known = from.spread != nullptr || p.cluster->wan_latency() == WanLatency::pipelined;
  if (known && engine.runs.overlap_p2p && link.latency.count() >= kWanLatencyThreshold) {
    time.delay_ns = round_ns(link.latency.count());
    link.latency = Seconds(0);
  }
  time.sending_ns = round_ns(point_to_point_s({link}, 0, bytes) + gather + host);
  return time;
}

void fill_transfer(Pricing& p, std::int32_t i, PricedChunk& chunk) {
  chunk.boundary_bytes = chunk.transfer_ns = chunk.delay_ns = 0;
  if (i == 0 || p.stage_of(i) == p.stage_of(i - 1)) return;
  const RangeCost& sender = p.ranges(i - 1).back();
  const std::int32_t kind = p.kind_of(sender.last);
  chunk.boundary_bytes = (*sender.layers)[static_cast<std::size_t>(kind)].boundary_bytes;
  if (p.places != nullptr) {
    const RangeCost& receiver = p.ranges(i).front();
    const auto at = [&](std::int32_t c) -> const StagePlace& { return (*p.places)[static_cast<std::size_t>(p.stage_of(c))]; };
    const TransferTime time = unlike_transfer(p, sender, receiver, at(i - 1), at(i));
    chunk.transfer_ns = time.sending_ns;
    chunk.delay_ns = time.delay_ns;
    p.largest_message =
        std::max({p.largest_message, chunk.boundary_bytes, (*receiver.layers)[static_cast<std::size_t>(kind)].boundary_bytes});
    return;
  }
  chunk.transfer_ns = known_transfer_ns(p, i, sender, chunk.boundary_bytes);
  if (chunk.transfer_ns < 0)
    chunk.transfer_ns = transfer_ns(p.c, *sender.strategy, chunk.boundary_bytes, p.structure.schedule, i);
  p.largest_message = std::max(p.largest_message, chunk.boundary_bytes);
}

/// Moves the part of an overlapped reduction for which the end of the step waits to the optimizer.
void wait_for_reduction(Pricing& p, std::int32_t i) {
  if (!p.structure.reduce_gradients || !p.structure.overlap_reduce) return;
  PricedChunk& chunk = p.priced(i);
  const std::int64_t waited =
      late_reduction_ns(p.c, *p.chunks.front().front().strategy, p.structure.chunks(), chunk.total.elements, chunk.reduce_ns);
  chunk.reduce_ns -= waited;
  const Nanoseconds all(waited * p.structure.buckets[ChunkId(i)]);
  p.optimizer(p.stage_of(i)).exposed_ns += all.count();
  p.out.stages[StageId(p.stage_of(i))].late_reduction += all;
}

void write_chunk(Pricing& p, std::int32_t i) {
  const PricedChunk& chunk = p.priced(i);
  const ChunkTotal& t = chunk.total;
  const bool apart = splits_backward(p.structure.schedule.kind);
  p.out.works[p.structure.forward(ChunkId(i))].time = t.forward;
  p.out.works[p.structure.backward(ChunkId(i))].time = apart ? t.backward_input : t.backward;
  if (apart) p.out.works[p.structure.backward_weight(ChunkId(i))].time = t.backward_weight;
  p.out.set_bytes(p.structure, ChunkId(i), t.bytes);
  const auto collective = [&](CollectiveId id, std::int64_t ns, const MutualSlowdown& slowdown) {
    p.out.collectives[id] = Nanoseconds(ns);
    p.out.slowdowns[id] = slowdown;
  };
  if (p.structure.reduce_gradients) collective(p.structure.grad_reduce(ChunkId(i)), chunk.reduce_ns, chunk.reduce_slowdown);
  if (p.structure.gather_parameters) collective(p.structure.param_gather(ChunkId(i)), chunk.gather_ns, chunk.gather_slowdown);
  if (i == 0) return;
  for (const bool gradient : {false, true}) {
    p.out.transfers[p.structure.transfer(ChunkId(i), gradient)] = Nanoseconds(chunk.transfer_ns);
    if (!p.out.delays.empty()) p.out.delays[p.structure.transfer(ChunkId(i), gradient)] = Nanoseconds(chunk.delay_ns);
    if (p.program != nullptr) p.program->transfers[p.structure.transfer(ChunkId(i), gradient)].bytes = chunk.boundary_bytes;
  }
}

/// Finds the chunks that hold a copy of the token table. Copies of frozen tables count as well: they take memory, and
/// are gathered under ZeRO-3.
void find_copies(Pricing& p) {
  p.scratch.layers.clear();
  for (const std::vector<RangeCost>& chunk : p.chunks) p.scratch.layers.push_back(chunk.back().last - chunk.front().first + 1);
  table_chunks(*p.c.workload.model, p.structure.schedule, p.scratch.layers, p.scratch.copies);
}

void run(Pricing& p) {
  const ProgramStructure& structure = p.structure;
  ESPALIER_CHECK(static_cast<std::int32_t>(p.chunks.size()) == structure.chunks());
  ESPALIER_CHECK(p.program == nullptr || p.program->structure() == structure);
  p.out.reset(structure);
  p.out.allocator_reserve = p.c.engine->memory.allocator_reserve;
  p.scratch.chunks.resize(p.chunks.size());
  p.scratch.held.resize(static_cast<std::size_t>(structure.schedule.stages));
  for (Shares& shares : p.scratch.held) shares.clear();
  if (p.program != nullptr) p.program->parts.clear();
  find_copies(p);
  for (std::int32_t i = 0; i < structure.chunks(); ++i) p.priced(i).stage = place_of_chunk(structure.schedule, i).stage;
  for (std::int32_t i = 0; i < structure.chunks(); ++i) {
    price_chunk(p, i);
    fill_transfer(p, i, p.priced(i));
  }
  const auto delayed = [&](std::int32_t i) { return p.priced(i).delay_ns > 0; };
  for (std::int32_t i = 0; i < structure.chunks() && p.out.delays.empty(); ++i)
    if (delayed(i)) p.out.delays.assign(static_cast<std::size_t>(structure.transfers()), Nanoseconds{});
  exchange_table(p);
  for (std::int32_t i = 0; i < structure.schedule.stages; ++i) price_stage(p, i);
  for (std::int32_t i = 0; i < structure.chunks(); ++i) {
    // Sums inside tensor groups come after the backward passes of a stage and before its update.
    p.optimizer(p.stage_of(i)).exposed_ns += p.priced(i).total.gradient_sync_ns;
    wait_for_reduction(p, i);
    write_chunk(p, i);
  }
}

}  // namespace

void price(const CostContext& c, const ProgramStructure& structure, const ChunkRanges& chunks, Costs& out, Program* program,
           const ClusterCosts* cluster, const std::vector<StagePlace>* places) {
  PriceScratch scratch;
  Pricing p{c, structure, chunks, nullptr, nullptr, ChunkEdges::exposed, scratch.state(), out, program};
  p.cluster = cluster;
  p.places = places;
  run(p);
}

void price(const CostContext& c, const ProgramStructure& structure, const Strategy& s, const SplitTable& split,
           const std::vector<LayerCost>& layers, PriceScratch& scratch, Costs& out) {
  ChunkRanges& ranges = scratch.state().ranges;
  ranges.resize(static_cast<std::size_t>(split.chunks()));
  for (std::int32_t i = 0; i < split.chunks(); ++i)
    ranges[static_cast<std::size_t>(i)].assign(1, {split.first(i), split.last(i), &s, &layers});
  const StrategyCost only = strategy_cost_of(c, s, structure.schedule.stages, layers, ChunkEdges::exposed);
  Pricing p{c, structure, ranges, &split, &only, ChunkEdges::exposed, scratch.state(), out, nullptr};
  run(p);
}

RangesOfPlan ranges_of(const CostContext& c, std::int32_t stages, const std::vector<std::vector<LayerRange>>& chunks,
                       std::int64_t samples) {
  RangesOfPlan out;
  const auto layers_of = [&](const Strategy& s) -> const std::pair<const Strategy*, std::vector<LayerCost>>& {
    for (const auto& known : out.layers)
      if (*known.first == s) return known;
    out.layers.emplace_back(&s, std::vector<LayerCost>{});
    layer_costs(c, s, stages, static_cast<std::int32_t>(samples / s.dp), out.layers.back().second);
    return out.layers.back();
  };
  for (const auto& chunk : chunks) {
    out.chunks.emplace_back();
    for (const LayerRange& r : chunk) {
      const auto& known = layers_of(r.strategy);
      out.chunks.back().push_back({r.first, r.last, known.first, &known.second});
    }
  }
  return out;
}

void static_bytes(const CostContext& c, const Strategy& s, const std::vector<LayerCost>& layers, const Costs& costs,
                  std::vector<std::int64_t>& out) {
  const StatePolicy states = states_of(*c.engine, c.workload.training);
  LargestLayers largest;
  for (std::size_t k = 0; k < layers.size(); ++k)
    largest.take(layers[k].elements(), states, c.workload.model->kinds[k].role != LayerRole::block);
  out.clear();
  for (const StageCost& stage : costs.stages) {
    const ParameterElements held{stage.dense_parameters, stage.expert_parameters, stage.frozen_dense_bytes,
                                 stage.frozen_expert_bytes};
    StaticMemory memory = state_memory(held, states, s);
    memory.framework = stage.memory.framework;  // independent of how states are sharded
    memory.communication_buffers =
        2 * costs.message.count() + zero_buffers(c.engine->memory.zero, states, s, held, largest).total();
    out.push_back(memory.total());
  }
}

}  // namespace espalier::cost
