// SPDX-License-Identifier: Apache-2.0
#include "check/view.h"

#include <algorithm>
#include <limits>

#include "base/invariant.h"
#include "check/arithmetic.h"
#include "plan/engine.h"

namespace espalier::check {

std::int32_t stage_of_chunk(const Schedule& schedule, std::int32_t chunk) {
  const std::int32_t p = schedule.stages;
  if (schedule.kind == ScheduleKind::zb_v) return chunk < p ? chunk : 2 * p - 1 - chunk;
  return chunk % p;
}

std::int32_t chunk_of_stage(const Schedule& schedule, std::int32_t stage, std::int32_t k) {
  if (schedule.kind == ScheduleKind::zb_v && k == 1) return 2 * schedule.stages - 1 - stage;
  return k * schedule.stages + stage;
}

bool weights_late(ScheduleKind kind) {
  return kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_h2 || kind == ScheduleKind::zb_v;
}

std::int64_t passes_ahead(const Schedule& schedule, std::int64_t stage) {
  if (schedule.kind == ScheduleKind::gpipe) return schedule.microbatches;
  const std::int64_t behind = schedule.stages - 1 - stage;
  return std::min<std::int64_t>(schedule.microbatches, 1 + (schedule.kind == ScheduleKind::zb_h2 ? 2 : 1) * behind);
}

std::int64_t stage_of_device(const Strategy& strategy, std::int64_t stages, std::int64_t id) {
  const std::int64_t inner = std::int64_t{strategy.tp} * strategy.cp;
  if (strategy.order == RankOrder::tp_cp_pp_dp) return id / inner % stages;
  return id / (inner * strategy.dp);  // pp is outermost
}

std::int64_t device_count(const Cluster& cluster) {
  std::int64_t sum = 0;
  for (const NodeGroup& group : cluster.groups) {
    sum = saturating_sum(sum, saturating_multiply(group.nodes, group.devices_per_node));
  }
  return sum;
}

std::int64_t stream_tokens(TokenStream stream, const Sequence& sequence) {
  if (stream == TokenStream::main) return sequence.main;
  if (stream == TokenStream::encoder) return sequence.encoder;
  return stream == TokenStream::decoder ? sequence.decoder : 0;
}

std::int64_t layer_tokens(const LayerKind& kind, const Sequence& sequence) {
  const bool fixed = kind.stream == TokenStream::fixed;
  return fixed ? kind.fixed_tokens : stream_tokens(kind.stream, sequence) / std::max<std::int64_t>(1, kind.tokens_divisor);
}

std::int64_t reachable_tokens(const LayerKind& kind, const Sequence& sequence) {
  const std::int64_t pieces = kind.stream == TokenStream::encoder ? std::max<std::int64_t>(1, sequence.images) : 1;
  return layer_tokens(kind, sequence) / pieces;
}

bool has_experts(const Model& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(), [](const LayerKind& kind) {
    return std::any_of(kind.operators.begin(), kind.operators.end(),
                       [](const Operator& op) { return op.kind == OperatorKind::expert_linear; });
  });
}

std::size_t group_of_device(const Cluster& cluster, std::int64_t device) {
  std::size_t group = 0;
  while (group + 1 < cluster.groups.size() && device >= first_device_of(cluster, group + 1)) ++group;
  return group;
}

std::int64_t first_device_of(const Cluster& cluster, std::size_t group) {
  std::int64_t first = 0;
  for (std::size_t g = 0; g < group; ++g) first += cluster.groups[g].nodes * cluster.groups[g].devices_per_node;
  return first;
}

bool unlike_stages(const Pipeline& pipeline, const Cluster& cluster, PlanPart part) {
  if (part == PlanPart::of_several) return true;
  if (!cluster.equal_devices()) return true;
  if (std::any_of(pipeline.stages.begin(), pipeline.stages.end(), uneven_replicas)) return true;
  std::vector<std::int64_t> counts;
  for (const Stage& stage : pipeline.stages) {
    counts.push_back(0);
    for (const DeviceRange& range : stage.devices) counts.back() += range.count;
  }
  return std::any_of(counts.begin(), counts.end(), [&](std::int64_t n) { return n != counts.front(); });
}

bool one_strategy(const Pipeline& pipeline) {
  const Strategy& first = pipeline.strategy();
  return std::all_of(pipeline.stages.begin(), pipeline.stages.end(), [&](const Stage& stage) {
    return std::all_of(stage.chunks.begin(), stage.chunks.end(),
                       [&](const Chunk& chunk) { return chunk.ranges.size() == 1 && chunk.ranges.front().strategy == first; });
  });
}

const NodeGroup& nodes_of(const View& view) { return view.cluster->groups[view.group]; }

View view_on(const View& plan, std::size_t stage) {
  ESPALIER_CHECK(stage < plan.group_of_stage.size() && plan.group_of_stage[stage] < plan.cluster->groups.size());
  View view = plan;
  view.group = plan.group_of_stage[stage];
  view.speed = plan.speed_of_stage[stage];
  if (!plan.samples_of_stage.empty()) view.replica_samples = plan.samples_of_stage[stage];
  return view;
}

namespace {

/// Returns the speed of a stage, which is that of its slowest device.
double slowest_speed(const NodeGroup& group, const Stage& stage) {
  std::int64_t devices = 0, unlike = 0;
  double slowest = std::numeric_limits<double>::infinity();
  for (const DeviceRange& range : stage.devices) {
    devices += range.count;
    for (const DeviceSpeed& device : group.speed) {
      const std::int64_t steps = (device.device - range.first) / range.stride;
      if (device.device < range.first || steps >= range.count || range.first + steps * range.stride != device.device) continue;
      ++unlike;
      slowest = std::min(slowest, device.factor);
    }
  }
  return unlike == devices ? slowest : std::min(slowest, 1.0);
}

}  // namespace

View make_view(const Plan& plan, const Model& model, const Cluster& cluster, PlanPart part, const EngineModel* of_job) {
  const Pipeline& pipeline = plan.only_pipeline();
  View view;
  view.part = part;
  view.plan = &plan;
  view.pipeline = &pipeline;
  view.one_strategy = one_strategy(pipeline);
  view.model = &model;
  view.cluster = &cluster;
  if (const EngineModel* engine = of_job != nullptr ? of_job : find_engine(plan.engine)) {
    view.engine = *engine;
    view.figures = figures_for(engine->base, engine->version);
  }
  view.strategy = pipeline.strategy();
  view.micro_batch = pipeline.schedule.micro_batch;
  view.samples = pipeline.samples_per_microbatch();
  view.stages = pipeline.schedule.stages;
  view.microbatches = pipeline.schedule.microbatches;
  if (unlike_stages(pipeline, cluster, part))
    for (const Stage& stage : pipeline.stages) {
      view.group_of_stage.push_back(group_of_device(cluster, stage.devices.front().first));
      view.speed_of_stage.push_back(slowest_speed(cluster.groups[view.group_of_stage.back()], stage));
    }
  else
    view.listed = listed_devices(pipeline);
  const std::int32_t v = pipeline.schedule.virtual_stages;
  view.chunks.resize(static_cast<std::size_t>(view.stages) * static_cast<std::size_t>(v));
  view.stage_of.resize(view.chunks.size());
  for (std::int32_t i = 0; i < view.stages; ++i) {
    for (std::int32_t k = 0; k < v; ++k) {
      const auto c = static_cast<std::size_t>(chunk_of_stage(pipeline.schedule, i, k));
      view.chunks[c] = pipeline.stages[static_cast<std::size_t>(i)].chunks[static_cast<std::size_t>(k)];
      view.stage_of[c] = i;
    }
  }
  // check_structure has checked this: all layers, in the order of the pipeline.
  for (std::size_t c = 0; c < view.chunks.size(); ++c) {
    ESPALIER_CHECK(!view.chunks[c].ranges.empty());
    ESPALIER_CHECK(view.chunks[c].first() == (c == 0 ? 0 : view.chunks[c - 1].last() + 1));
  }
  return view;
}

View view_of(const View& plan, const Strategy& strategy) {
  // Micro-batches split evenly over the replicas.
  ESPALIER_CHECK(strategy.dp >= 1 && plan.samples % strategy.dp == 0);
  View view = plan;
  view.strategy = strategy;
  view.micro_batch = static_cast<std::int32_t>(plan.replica_samples > 0 ? plan.replica_samples : plan.samples / strategy.dp);
  return view;
}

std::vector<Strategy> strategies_of(const View& view) {
  std::vector<Strategy> all;
  for (const Stage& stage : view.pipeline->stages)
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges)
        if (std::find(all.begin(), all.end(), range.strategy) == all.end()) all.push_back(range.strategy);
  return all;
}

}  // namespace espalier::check
