// SPDX-License-Identifier: Apache-2.0
#include "cost/cluster_costs.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <utility>

#include "base/format.h"
#include "base/invariant.h"
#include "cost/chunk_sum.h"
#include "cost/price_parts.h"
#include "cost/rounding.h"
#include "cost/sampled_contexts.h"
#include "cost/state_memory.h"
#include "plan/engine.h"
#include "plan/listed_devices.h"
#include "plan/shared_table.h"

namespace espalier::cost {
namespace {

/// Returns one group as a cluster of its own, with devices at `speed`.
Cluster at_speed(const Cluster& cluster, std::size_t group, double speed) {
  Cluster out = cluster.alone(group);
  if (speed != 1.0) out.groups.front().device = out.groups.front().device.at_speed(speed);
  return out;
}

/// Returns a level that is no faster than either.
FabricLevel slower(FabricLevel a, const FabricLevel& b) {
  const auto rate = [](const FabricLevel& level) { return level.bandwidth.count() * level.efficiency; };
  if (rate(b) < rate(a)) {
    a.bandwidth = b.bandwidth;
    a.efficiency = b.efficiency;
    a.per_peer = b.per_peer;
  }
  a.bandwidth_alone = std::min(a.bandwidth_alone, b.bandwidth_alone);
  a.latency = std::max(a.latency, b.latency);
  a.start = std::max(a.start, b.start);
  return a;
}

/// Returns the interfaces of a node, shared by all of its devices.
FabricLevel interfaces_of(const NodeGroup& group) {
  FabricLevel level;
  level.bandwidth = group.node_bandwidth / static_cast<double>(group.devices_per_node);
  level.bandwidth_alone = group.node_bandwidth;
  level.efficiency = 1.0;
  return level;
}

}  // namespace

ClusterCosts::ClusterCosts(const Model& model, const Cluster& cluster, const Training& training, const EngineModel& engine,
                           WanLatency wan_latency)
    : cluster_(&cluster), wan_latency_(wan_latency) {
  first_device_.push_back(0);
  for (std::size_t g = 0; g < cluster.groups.size(); ++g) {
    groups_.emplace_back(model, cluster.alone(g), training, engine);
    std::vector<double> speeds;
    for (const DeviceSpeed& device : cluster.groups[g].speed) speeds.push_back(device.factor);
    std::sort(speeds.begin(), speeds.end());
    speeds.erase(std::unique(speeds.begin(), speeds.end()), speeds.end());
    for (const double speed : speeds)
      if (speed != 1.0) unlike_.push_back({g, speed, CostContext(model, at_speed(cluster, g, speed), training, engine)});
    first_device_.push_back(first_device_.back() + cluster.groups[g].nodes * cluster.groups[g].devices_per_node);
  }
  if (!cluster.inter.empty()) join_ = cluster.inter.back();
}

const CostContext* ClusterCosts::shared_context(const Plan& plan, std::optional<CostContext>& placed) const {
  // Messages over long paths that follow each other are priced stage by stage.
  if (wan_latency_ != WanLatency::blocking) return nullptr;
  if (plan.pipelines.size() == 1)
    if (const CostContext* block = block_context(plan.only_pipeline())) return block;
  if (on_unlike_devices(plan, *cluster_) || !unpriced_placement(plan, *of(0).workload.model, *cluster_).ok()) return nullptr;
  placed = of(0);
  placed->fabric.place(plan);
  return &*placed;
}

const CostContext* ClusterCosts::block_context(const Pipeline& pipeline) const {
  if (wan_latency_ != WanLatency::blocking) return nullptr;
  const std::optional<DeviceBlock> block = device_block(pipeline, *cluster_);
  return block ? &of(block->group) : nullptr;
}

StagePlace ClusterCosts::place(const Stage& stage) const {
  const DeviceRange& range = stage.devices.front();
  ESPALIER_CHECK(stage.devices.size() == 1 && range.stride == 1);
  StagePlace at;
  while (range.first >= first_device_[at.group + 1]) ++at.group;
  at.first = range.first - first_device_[at.group];
  at.last = at.first + range.count - 1;
  ESPALIER_CHECK(first_device_[at.group] + at.last < first_device_[at.group + 1]);
  at.speed = cluster_->slowest_of(range.first, range.count);
  return at;
}

CostContext ClusterCosts::context(const ScatteredStages& stages, std::size_t i, std::size_t k) const {
  const ScatteredStages::Kind& kind = stages.kinds(i)[k];
  StagePlace at;
  at.group = kind.group;
  at.speed = kind.speed;
  CostContext out = of(at);
  out.fabric = stages.fabric(i, out.fabric, *out.engine);
  out.state_share = kind.states;
  return out;
}

const CostContext& ClusterCosts::of(const StagePlace& place) const {
  if (place.context != nullptr) return *place.context;
  if (place.speed == 1.0) return groups_[place.group];
  const auto at = std::find_if(unlike_.begin(), unlike_.end(),
                               [&](const AtSpeed& known) { return known.group == place.group && known.speed == place.speed; });
  ESPALIER_CHECK(at != unlike_.end());
  return at->context;
}

FabricLevel ClusterCosts::link(const StagePlace& a, const StagePlace& b) const {
  if (a.spread != nullptr && a.spread == b.spread) return a.spread->link(a.stage, b.stage);
  if (a.group == b.group) {
    const std::vector<FabricLevel>& levels = groups_[a.group].fabric.levels;
    ESPALIER_CHECK(!levels.empty());
    const std::int64_t first = std::min(a.first, b.first), last = std::max(a.last, b.last);
    for (const FabricLevel& level : levels)
      if (first / level.span == last / level.span) return level;
    return levels.back();
  }
  if (!cluster_->links.empty()) return named_link(a, b);
  FabricLevel link = join_;
  for (const StagePlace* end : {&a, &b}) {
    const Fabric& fabric = groups_[end->group].fabric;
    if (static_cast<int>(fabric.levels.size()) > fabric.node_levels)
      link = slower(link, fabric.levels.back());
    else if (const NodeGroup& at = cluster_->groups[end->group]; at.node_bandwidth.count() > 0)
      link = slower(link, interfaces_of(at));
  }
  return link;
}

FabricLevel ClusterCosts::named_link(const StagePlace& a, const StagePlace& b) const {
  const auto nodes = [&](const StagePlace& at) {
    const std::int64_t node = cluster_->groups[at.group].devices_per_node;
    return static_cast<double>(at.last / node - at.first / node + 1);
  };
  const GroupPath path = cluster_->path(a.group, b.group);
  double rate = std::numeric_limits<double>::infinity();
  for (const std::size_t i : path.links) {
    const GroupLink& link = cluster_->links[i];
    double shared = 1;
    if (link.sharing == LinkSharing::node) shared = std::min(nodes(a), nodes(b));
    if (link.sharing == LinkSharing::node_pair) shared = nodes(a) * nodes(b);
    rate = std::min(rate, link.bandwidth.count() * shared);
  }
  for (const StagePlace* end : {&a, &b})
    if (const double own = cluster_->groups[end->group].node_bandwidth.count(); own > 0) rate = std::min(rate, own * nodes(*end));
  if (path.links.empty()) rate = std::min(rate, path.bandwidth.count() * std::min(nodes(a), nodes(b)));
  const auto devices = static_cast<double>(std::min(a.last - a.first, b.last - b.first) + 1);
  FabricLevel level;
  level.name = "between groups";
  level.span = cluster_->devices();
  level.bandwidth = level.bandwidth_alone = BytesPerSecond(rate / devices);
  level.efficiency = 1.0;
  level.latency = path.latency;
  return level;
}

bool on_unlike_devices(const Plan& plan, const Cluster& cluster) {
  if (!cluster.equal_devices() || plan.pipelines.size() > 1) return true;
  const std::vector<Stage>& stages = plan.pipelines.front().stages;
  return std::any_of(stages.begin(), stages.end(),
                     [&](const Stage& s) { return uneven_replicas(s) || device_count(s) != device_count(stages.front()); });
}

Status unpriced_groups(const Plan& plan) {
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    for (std::size_t i = 0; i < plan.pipelines[p].stages.size(); ++i) {
      const Stage& stage = plan.pipelines[p].stages[i];
      const std::string where = cat("$.pipelines[", p, "].stages[", i, "]");
      for (const Chunk& chunk : stage.chunks)
        for (const LayerRange& r : chunk.ranges)
          if (!r.strategy.partition.empty())
            return Error{ErrorKind::bad_input, where, "operators partitioned in space and time",
                         "only tensor parallelism where stages differ", ""};
    }
  }
  return {};
}

namespace {

/// Holds a pipeline while it is priced: its ranges with the contexts of their stages.
struct PipelineRanges {
  std::deque<std::pair<const Strategy*, std::vector<LayerCost>>> priced;  // a deque keeps their addresses
  std::deque<const CostContext*> under;
  ChunkRanges chunks;
  std::vector<StagePlace> places;      ///< by stage
  const CostContext* block = nullptr;  ///< context of all stages, priced as if alone (ClusterCosts::block_context)
  std::deque<CostContext> own;         ///< contexts of spread stages
  SampledContexts sampled;
};

/// Returns the layer costs under a context and a strategy, computed once. Each stage of unequal replicas has contexts
/// of its own, so the context determines the number of samples.
const std::vector<LayerCost>& layers_of(PipelineRanges& out, const StagePlace& place, const CostContext& c, const Strategy& s,
                                        const Pipeline& pipeline) {
  for (std::size_t i = 0; i < out.priced.size(); ++i)
    if (out.under[i] == &c && *out.priced[i].first == s) return out.priced[i].second;
  out.priced.emplace_back(&s, std::vector<LayerCost>{});
  out.under.push_back(&c);
  const auto samples = static_cast<std::int32_t>(place.samples > 0 ? place.samples : pipeline.samples_per_microbatch() / s.dp);
  layer_costs(c, s, pipeline.schedule.stages, samples, out.priced.back().second);
  return out.priced.back().second;
}

/// Adds the places of stages on devices in any order, each stage with its devices of kind `k` (or of its last kind).
void place_scattered(const ClusterCosts& c, const ScatteredStages& stages, const Pipeline& pipeline, std::size_t k,
                     PipelineRanges& out) {
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    StagePlace at;
    at.spread = &stages;
    at.stage = i;
    const std::size_t kind = std::min(k, stages.kinds(i).size() - 1);
    at.group = stages.kinds(i)[kind].group;
    at.speed = stages.kinds(i)[kind].speed;
    at.samples = stages.kinds(i)[kind].samples;
    at.context = out.block != nullptr ? out.block : &out.own.emplace_back(c.context(stages, i, kind));
    out.places.push_back(at);
  }
}

/// Fills in the ranges of a pipeline. `block` is the context of all stages next to scattered pipelines; null: each
/// stage at its place.
void fill_ranges(const ClusterCosts& c, const Pipeline& pipeline, const ScatteredStages* spread, const CostContext* block,
                 std::size_t kind, PipelineRanges& out) {
  out.block = block;
  if (spread != nullptr)
    place_scattered(c, *spread, pipeline, kind, out);
  else
    for (const Stage& stage : pipeline.stages) out.places.push_back(c.place(stage));
  const Schedule& schedule = pipeline.schedule;
  for (std::int32_t n = 0; n < schedule.chunks(); ++n) {
    const ChunkPlace at = place_of_chunk(schedule, n);
    const auto stage = static_cast<std::size_t>(at.stage);
    const StagePlace& place = out.places[stage];
    const CostContext& context = out.sampled.of(c.of(place), samples_of_stage(pipeline, stage, place.samples));
    out.chunks.emplace_back();
    for (const LayerRange& r : pipeline.stages[stage].chunks[static_cast<std::size_t>(at.local_chunk)].ranges)
      out.chunks.back().push_back(
          {r.first, r.last, &r.strategy, &layers_of(out, place, context, r.strategy, pipeline), &context});
  }
}

/// Returns the bytes for which a rank of a chunk's stage is responsible when the gradients of layers meet between
/// pipelines, after the reduction over its own replicas.
double answered_bytes(const PipelineRanges& pipeline, std::int32_t chunk, const LayerSpan& layers) {
  double bytes = 0;
  for (const RangeCost& range : pipeline.chunks[static_cast<std::size_t>(chunk)]) {
    const CostContext& context = *range.on;
    const StatePolicy states = states_of(*context.engine, context.workload.training);
    const Strategy& s = *range.strategy;
    for (std::int32_t i = std::max(range.first, layers.first); i <= std::min(range.last, layers.last); ++i) {
      const LayerCost& layer =
          (*range.layers)[static_cast<std::size_t>(context.workload.model->layers[static_cast<std::size_t>(i)])];
      bytes += states.reduce * (static_cast<double>(layer.dense_parameters) / static_cast<double>(s.data_ranks()) +
                                static_cast<double>(layer.expert_parameters) / static_cast<double>(s.expert_data_ranks()));
    }
  }
  return bytes;
}

/// Returns these bytes for a copy of the token table that the chunk's stage holds in addition to its own layers. The
/// copy meets with the layer that uses it.
double copied_bytes(const PipelineRanges& pipeline, const ProgramStructure& structure, std::int32_t chunk,
                    const LayerSpan& layers) {
  const std::vector<RangeCost>& held = pipeline.chunks[static_cast<std::size_t>(chunk)];
  const CostContext& context = *held.front().on;
  const Model& model = *context.workload.model;
  if (!holds_copy(structure.table_chunks, ChunkId(chunk))) return 0;
  const std::int32_t user = table_layer(model, held.front().first, held.back().last);
  if (user < layers.first || user > layers.last) return 0;
  const Strategy& table = *pipeline.chunks.front().front().strategy;
  const StatePolicy states = states_of(*context.engine, context.workload.training);
  return states.reduce * static_cast<double>(table_elements(model, *context.engine, context.workload.training, table).dense) /
         static_cast<double>(table.data_ranks());
}

/// Appends the columns of one pipeline.
void append(Costs& out, const Costs& of) {
  for (const WorkCost& work : of.works) out.works.add(work);
  for (const Nanoseconds t : of.collectives) out.collectives.add(t);
  for (const MutualSlowdown& k : of.slowdowns) out.slowdowns.add(k);
  for (const Nanoseconds t : of.transfers) out.transfers.add(t);
  if (!of.delays.empty()) {
    while (out.delays.size() + of.transfers.size() < out.transfers.size()) out.delays.add(Nanoseconds{});
    for (const Nanoseconds t : of.delays) out.delays.add(t);
  } else if (!out.delays.empty()) {
    while (out.delays.size() < out.transfers.size()) out.delays.add(Nanoseconds{});
  }
  for (const StageCost& stage : of.stages) out.stages.add(stage);
  out.allocator_reserve = of.allocator_reserve;
  out.message = std::max(out.message, of.message);
}

/// Finds links between scattered pipelines whose gradients meet. The messages of two pipelines at once are computed
/// once.
class SegmentLinks {
 public:
  FabricLevel link(const ClusterCosts& c, const StagePlace& a, const StagePlace& b) {
    if (a.spread == nullptr || b.spread == nullptr) return c.link(a, b);
    const auto [known, added] = at_once_.try_emplace({a.spread, b.spread});
    if (added) known->second = a.spread->meetings(*b.spread);
    return a.spread->link(a.stage, *b.spread, b.stage, known->second);
  }

 private:
  std::map<std::pair<const ScatteredStages*, const ScatteredStages*>, ScatteredStages::Loads> at_once_;
};

struct PricedSegment {
  Nanoseconds time;
  MutualSlowdown slowdown;  ///< the largest of the stages that meet
};

/// Prices one reduction between pipelines, and its message for the program.
PricedSegment price_segment(const ClusterCosts& c, const std::deque<PipelineRanges>& pipelines, const std::vector<Program>& parts,
                            const JoinedSegment& segment, SegmentLinks& meetings, CollectivePart& part) {
  double bytes = 0;
  FabricLevel slowest;
  bool first = true;
  for (std::size_t a = 0; a < segment.holders.size(); ++a) {
    const SegmentHolder& x = segment.holders[a];
    const PipelineRanges& own = pipelines[static_cast<std::size_t>(x.pipeline)];
    const ProgramStructure& structure = parts[static_cast<std::size_t>(x.pipeline)].structure();
    bytes = std::max(bytes, answered_bytes(own, x.chunk, segment.layers) + copied_bytes(own, structure, x.chunk, segment.layers));
    const StagePlace& here = pipelines[static_cast<std::size_t>(x.pipeline)].places[static_cast<std::size_t>(x.stage)];
    for (std::size_t b = a + 1; b < segment.holders.size(); ++b) {
      const SegmentHolder& y = segment.holders[b];
      const FabricLevel link =
          meetings.link(c, here, pipelines[static_cast<std::size_t>(y.pipeline)].places[static_cast<std::size_t>(y.stage)]);
      slowest = first ? link : slower(slowest, link);
      first = false;
    }
  }
  slowest.efficiency /= c.of(0).engine->coefficients.data_communication;
  Group group;
  group.size = static_cast<std::int64_t>(segment.holders.size());
  group.levels = 1;
  group.members[0] = group.size;
  part.kind = CollectiveKind::all_reduce;
  part.group = GroupKind::data_replica;
  part.bytes = bytes;
  part.element_bytes = states_of(*c.of(0).engine, c.of(0).workload.training).reduce;
  const double seconds = all_reduce_s({slowest}, group, bytes);
  PricedSegment out{Nanoseconds(round_ns(seconds)), {}};
  const double moved = moved_bytes(CollectiveKind::all_reduce, {slowest}, group, bytes);
  for (const SegmentHolder& holder : segment.holders) {
    const StagePlace& place = pipelines[static_cast<std::size_t>(holder.pipeline)].places[static_cast<std::size_t>(holder.stage)];
    out.slowdown.raise(c.of(place).device.interference().of(moved, seconds));
  }
  return out;
}

}  // namespace

namespace {

/// Raises each work, collective and message to the longer one, and memory and slow-down to the larger.
void raise(Costs& to, const Costs& by) {
  for (std::size_t i = 0; i < to.works.size(); ++i) {
    const WorkId id(static_cast<std::int32_t>(i));
    if (by.works[id].time.duration_ns() > to.works[id].time.duration_ns()) to.works[id].time = by.works[id].time;
    to.works[id].memory.during = std::max(to.works[id].memory.during, by.works[id].memory.during);
  }
  for (std::size_t i = 0; i < to.collectives.size(); ++i) {
    const CollectiveId id(static_cast<std::int32_t>(i));
    to.collectives[id] = std::max(to.collectives[id], by.collectives[id]);
    to.slowdowns[id].raise(by.slowdowns[id]);
  }
  for (std::size_t i = 0; i < to.transfers.size(); ++i) {
    const TransferId id(static_cast<std::int32_t>(i));
    to.transfers[id] = std::max(to.transfers[id], by.transfers[id]);
  }
  for (std::size_t i = 0; i < to.stages.size(); ++i) {
    const StageId id(static_cast<std::int32_t>(i));
    const Nanoseconds late = std::max(to.stages[id].late_reduction, by.stages[id].late_reduction);
    if (by.stages[id].memory.total() > to.stages[id].memory.total()) to.stages[id] = by.stages[id];
    to.stages[id].late_reduction = late;
  }
}

std::size_t most_kinds(const ScatteredStages* spread, std::size_t stages) {
  std::size_t most = 1;
  for (std::size_t i = 0; spread != nullptr && i < stages; ++i) most = std::max(most, spread->kinds(i).size());
  return most;
}

}  // namespace

namespace {

void price_stages(const ClusterCosts& c, const PipelineRanges& pipeline, const ProgramStructure& structure, Costs& out,
                  Program* program) {
  const bool alike = pipeline.block != nullptr;
  price(*pipeline.chunks.front().front().on, structure, pipeline.chunks, out, program, alike ? nullptr : &c,
        alike ? nullptr : &pipeline.places);
}

/// Moves the end of the reductions of each stage from its optimizer to the first meeting of its last chunk with other
/// pipelines. Gradients meet after they are reduced. Every holder waits for the longest of these ends. This is too long
/// where the holder with the longest end is ready before the others.
class LateReductions {
 public:
  LateReductions(const Program& program, const std::vector<JoinedSegment>& segments) : program_(program), segments_(segments) {
    if (segments.empty()) return;
    meeting_.assign(program.ranks.size(), 0);
    std::vector<std::int32_t> chunk(program.ranks.size(), -1);
    for (std::size_t n = 0; n < segments.size(); ++n)
      for (const SegmentHolder& holder : segments[n].holders) {
        const std::size_t i = index_of(holder);
        if (std::exchange(chunk[i], holder.chunk) != holder.chunk) meeting_[i] = n;
      }
  }

  /// Takes these ends from the optimizers of the holders of segment `n`, and returns the longest.
  Nanoseconds take(std::size_t n, Costs& costs) const {
    Nanoseconds longest;
    for (const SegmentHolder& holder : segments_[n].holders) {
      const std::size_t i = index_of(holder);
      if (meeting_[i] != n) continue;
      Nanoseconds& late = costs.stages[StageId(static_cast<std::int32_t>(i))].late_reduction;
      std::int64_t& exposed = costs.works[optimizer_of(holder)].time.exposed_ns;
      exposed -= std::min(exposed, late.count());
      longest = std::max(longest, std::exchange(late, Nanoseconds{}));
    }
    return longest;
  }

 private:
  [[nodiscard]] const PipelineProgram& part_of(const SegmentHolder& holder) const {
    return program_.pipelines[static_cast<std::size_t>(holder.pipeline)];
  }
  [[nodiscard]] std::size_t index_of(const SegmentHolder& holder) const {
    return static_cast<std::size_t>(part_of(holder).first_rank + holder.stage);  // a folded program has a rank a stage
  }
  [[nodiscard]] WorkId optimizer_of(const SegmentHolder& holder) const {
    const PipelineProgram& part = part_of(holder);
    return WorkId(part.first_work + part.structure.optimizer(StageId(holder.stage)).value);
  }

  const Program& program_;
  const std::vector<JoinedSegment>& segments_;
  std::vector<std::size_t> meeting_;  ///< by stage: first segment of its last chunk
};

/// Appends the costs of one kind of rank of each stage of a pipeline.
void append_kind(const PipelineRanges& pipeline, const Costs& costs, KindCosts& out) {
  append(out.costs, costs);
  for (const StagePlace& place : pipeline.places) out.group.push_back(place.group);
}

}  // namespace

Costs price(const ClusterCosts& c, const Plan& plan, Program& program, std::vector<KindCosts>* kinds) {
  if (kinds != nullptr) kinds->clear();
  std::optional<CostContext> placed;
  if (const CostContext* shared = c.shared_context(plan, placed)) {
    program = lower(plan, *c.of(0).workload.model, true);
    Costs costs;
    const Pipeline& pipeline = plan.only_pipeline();
    const auto chunks = chunk_ranges(pipeline);
    const RangesOfPlan ranges = ranges_of(*shared, pipeline.schedule.stages, chunks, pipeline.samples_per_microbatch());
    price(*shared, program.structure(), ranges.chunks, costs, &program);
    return costs;
  }
  std::vector<Program> parts = lower_pipelines(plan, *c.of(0).workload.model);
  std::deque<PipelineRanges> pipelines;
  const std::deque<ScatteredStages> spread = scattered_pipelines(c.cluster(), plan);
  std::size_t most = 1;
  for (std::size_t k = 0; k < spread.size(); ++k) most = std::max(most, most_kinds(&spread[k], plan.pipelines[k].stages.size()));
  std::vector<KindCosts> of_kinds(kinds != nullptr && most > 1 ? most : 0);
  Costs out;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const ScatteredStages* own_scattered = spread.empty() ? nullptr : &spread[k];
    const CostContext* block = spread.empty() ? nullptr : c.block_context(plan.pipelines[k]);
    pipelines.emplace_back();
    fill_ranges(c, plan.pipelines[k], own_scattered, block, 0, pipelines.back());
    Costs own;
    price_stages(c, pipelines.back(), parts[k].structure(), own, &parts[k]);
    if (!of_kinds.empty()) append_kind(pipelines.back(), own, of_kinds.front());
    for (std::size_t kind = 1; kind < (of_kinds.empty() ? most_kinds(own_scattered, plan.pipelines[k].stages.size()) : most);
         ++kind) {
      PipelineRanges of_kind;
      fill_ranges(c, plan.pipelines[k], own_scattered, block, kind, of_kind);
      Costs other;
      price_stages(c, of_kind, parts[k].structure(), other, nullptr);
      if (!of_kinds.empty()) append_kind(of_kind, other, of_kinds[kind]);
      raise(own, other);
    }
    append(out, own);
  }
  program = joined(parts);
  const std::vector<JoinedSegment> segments = parts.size() > 1 ? segments_of(parts) : std::vector<JoinedSegment>{};
  const LateReductions ends(program, segments);
  SegmentLinks meetings;
  const std::size_t before = out.collectives.size();
  for (std::size_t n = 0; n < segments.size(); ++n) {
    CollectivePart part;
    Collective& reduction = program.collectives[CollectiveId(static_cast<std::int32_t>(before + n))];
    ESPALIER_CHECK(reduction.pipelines.valid() && reduction.layers == segments[n].layers);
    const PricedSegment priced = price_segment(c, pipelines, parts, segments[n], meetings, part);
    const Nanoseconds late = ends.take(n, out);
    out.collectives.add(priced.time + late);
    out.slowdowns.add(priced.slowdown);
    for (KindCosts& kind : of_kinds) {
      ends.take(n, kind.costs);
      kind.costs.collectives.add(priced.time + late);
      kind.costs.slowdowns.add(priced.slowdown);
    }
    reduction.parts_begin = static_cast<std::int32_t>(program.parts.size());
    program.parts.push_back(part);
    reduction.parts_end = static_cast<std::int32_t>(program.parts.size());
  }
  if (kinds != nullptr) *kinds = std::move(of_kinds);
  return out;
}

}  // namespace espalier::cost
