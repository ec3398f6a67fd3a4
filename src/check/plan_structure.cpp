// SPDX-License-Identifier: Apache-2.0
#include "check/plan_structure.h"

#include <cstddef>

#include "check/arithmetic.h"
#include "check/rank_kinds.h"
#include "check/verdict.h"
#include "check/view.h"

namespace espalier::check {
namespace {

constexpr std::int64_t kMostDevices = std::int64_t{1} << 24;  // limits the memory of this check, not the product

/// Calls visit(stage, range) for every range.
template <class Visit>
void each_range(const Pipeline& pipeline, const Visit& visit) {
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i)
    for (const Chunk& chunk : pipeline.stages[i].chunks)
      for (const LayerRange& range : chunk.ranges) visit(i, range);
}

Finding check_schedule(const Pipeline& pipeline) {
  Verdict verdict("schedule");
  const Schedule& s = pipeline.schedule;
  verdict.require(s.stages >= 1 && s.microbatches >= 1 && s.micro_batch >= 1,
                  [&] { return say("stages ", s.stages, ", micro-batches ", s.microbatches, ", micro-batch ", s.micro_batch); });
  verdict.require(static_cast<std::size_t>(s.stages) == pipeline.stages.size(),
                  [&] { return say("the schedule has ", s.stages, " stages, the plan ", pipeline.stages.size()); });
  const bool virtual_ok = s.kind == ScheduleKind::interleaved ? s.virtual_stages >= 2
                          : s.kind == ScheduleKind::zb_v      ? s.virtual_stages == 2
                                                              : s.virtual_stages == 1;
  verdict.require(virtual_ok, [&] { return say(to_string(s.kind), " with ", s.virtual_stages, " virtual stages"); });
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    verdict.require(pipeline.stages[i].chunks.size() == static_cast<std::size_t>(s.virtual_stages), [&] {
      return say("stage ", i, " has ", pipeline.stages[i].chunks.size(), " chunks, the schedule ", s.virtual_stages);
    });
    for (const Chunk& chunk : pipeline.stages[i].chunks)
      verdict.require(!chunk.ranges.empty(), [&] { return say("a chunk of stage ", i, " holds no layers"); });
  }
  return verdict.finding(say(s.stages, " stages of ", s.virtual_stages, " chunks, ", s.microbatches, " micro-batches"));
}

Finding check_coverage(const Pipeline& pipeline, const Model& model) {
  Verdict verdict("coverage");
  const Schedule& s = pipeline.schedule;
  std::int64_t next = 0;
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  const std::int64_t chunks = std::int64_t{s.stages} * s.virtual_stages;
  for (std::int64_t position = 0; position < chunks; ++position) {
    const auto c = static_cast<std::int32_t>(position);
    const std::int32_t stage = stage_of_chunk(s, c);
    const std::int32_t k = s.kind == ScheduleKind::zb_v ? (c < s.stages ? 0 : 1) : c / s.stages;
    const Chunk& chunk = pipeline.stages[static_cast<std::size_t>(stage)].chunks[static_cast<std::size_t>(k)];
    for (const LayerRange& range : chunk.ranges) {
      verdict.require(range.first == next && range.last >= range.first && range.last < layers, [&] {
        return say("chunk ", c, " (stage ", stage, ") holds layers ", range.first, "…", range.last, " of ", layers,
                   ", expected to start with ", next);
      });
      next = std::int64_t{range.last} + 1;
    }
  }
  verdict.require(next == layers, [&] { return say("the chunks end before layer ", next, " of ", layers); });
  return verdict.finding(say(layers, " layers, each once and in order"));
}

/// Visits the devices of a stage by id; returns false if a range leaves the cluster.
template <class Visit>
bool each_device(const Stage& stage, std::int64_t devices, const Visit& visit) {
  for (const DeviceRange& range : stage.devices) {
    if (range.count < 1 || range.first < 0 || range.stride < 1 || range.count > devices) return false;
    const std::int64_t last = saturating_sum(range.first, saturating_multiply(range.count - 1, range.stride));
    if (last >= devices) return false;
    for (std::int64_t i = 0; i < range.count; ++i) visit(range.first + i * range.stride);
  }
  return true;
}

/// Checks that every device is in one stage. `left_out`: devices may be in none.
Finding check_devices(const Pipeline& pipeline, std::int64_t devices, bool left_out) {
  Verdict verdict("devices-once");
  if (!verdict.require(devices >= 1 && devices <= kMostDevices, [&] { return say("the cluster has ", devices, " devices"); })) {
    return verdict.finding("");
  }
  std::vector<std::int32_t> owner(static_cast<std::size_t>(devices), -1);
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    const bool inside = each_device(pipeline.stages[i], devices, [&](std::int64_t id) {
      std::int32_t& slot = owner[static_cast<std::size_t>(id)];
      verdict.require(slot < 0, [&] { return say("device ", id, " is in stage ", slot, " and in stage ", i); });
      slot = static_cast<std::int32_t>(i);
    });
    verdict.require(inside, [&] { return say("stage ", i, " names devices outside 0…", devices - 1); });
  }
  std::int64_t used = 0;
  for (std::size_t id = 0; id < owner.size(); ++id) {
    used += owner[id] >= 0 ? 1 : 0;
    verdict.require(left_out || owner[id] >= 0, [&] { return say("device ", id, " is in no stage"); });
  }
  return verdict.finding(used == devices ? say(devices, " devices, each once")
                                         : say(used, " of ", devices, " devices, each once"));
}

/// Checks what layers of different strategies must share: the devices of the stage, the samples, the engine-wide
/// switches.
Finding check_strategies(const Pipeline& pipeline, const Model& model) {
  Verdict verdict("strategies");
  const bool one = one_strategy(pipeline);
  const Strategy& first = pipeline.strategy();
  const std::int64_t samples = saturating_multiply(pipeline.schedule.micro_batch, first.dp);
  Overlap on;
  each_range(pipeline, [&](std::size_t, const LayerRange& range) {
    const Overlap& o = range.strategy.overlap;
    on.grad_reduce |= o.grad_reduce;
    on.param_gather |= o.param_gather;
    on.p2p |= o.p2p;
    on.tp |= o.tp;
  });
  each_range(pipeline, [&](std::size_t i, const LayerRange& range) {
    const Strategy& s = range.strategy;
    verdict.require(s.dp >= 1 && samples % s.dp == 0, [&] {
      return say("layers ", range.first, "…", range.last, " (stage ", i, "): ", samples, " samples over dp ", s.dp);
    });
    // A switch that is on holds wherever there is something to overlap. Gradients of experts alone may or may not be
    // named.
    const bool experts_alone = s.data_ranks() == 1 && s.expert_data_ranks() > 1 && check::has_experts(model);
    const bool reduces_alike = experts_alone || s.overlap.grad_reduce == (on.grad_reduce && s.data_ranks() > 1);
    const bool alike = reduces_alike && s.overlap.param_gather == (on.param_gather && s.shards_optimizer()) &&
                       s.overlap.p2p == on.p2p && s.overlap.tp == (on.tp && s.sp == SequenceParallel::megatron);
    verdict.require(alike || one, [&] {
      return say("layers ", range.first, "…", range.last, " (stage ", i,
                 ") have other overlap settings than the rest of the plan");
    });
  });
  return verdict.finding(one ? "one strategy for all layers" : "all layers share devices, samples and overlap");
}

std::int64_t devices_in(const Stage& stage) {
  std::int64_t count = 0;
  for (const DeviceRange& range : stage.devices) count = saturating_sum(count, std::max<std::int64_t>(0, range.count));
  return count;
}

Finding check_positive_degrees(const Pipeline& pipeline) {
  Verdict verdict("degrees");
  each_range(pipeline, [&](std::size_t, const LayerRange& range) {
    const Strategy& s = range.strategy;
    verdict.require(s.tp >= 1 && s.cp >= 1 && s.dp >= 1 && s.ep >= 1 && s.etp >= 1 && s.shard >= 1, [&] {
      return say("tp ", s.tp, ", cp ", s.cp, ", dp ", s.dp, ", ep ", s.ep, ", etp ", s.etp, ", shard ", s.shard);
    });
  });
  return verdict.finding("every degree at least 1");
}

/// Checks unlike stages one by one: each has as many devices as its layers are spread over, placed as its list
/// states.
Finding check_unlike_placement(const Pipeline& pipeline, const Cluster& cluster) {
  Verdict verdict("stage-placement");
  each_range(pipeline, [&](std::size_t i, const LayerRange& range) {
    const Strategy& s = range.strategy;
    const std::int64_t needed = saturating_product({s.tp, s.cp, s.dp}), held = devices_in(pipeline.stages[i]);
    verdict.require(needed == held, [&] {
      return say("stage ", i, ": tp ", s.tp, " · cp ", s.cp, " · dp ", s.dp, " = ", needed, ", it holds ", held, " devices");
    });
  });
  return verdict.finding(has_rank_kinds(pipeline, cluster) ? "every stage has tp·cp·dp devices"
                                                           : "every stage has tp·cp·dp adjacent devices of one node group");
}

Finding check_degrees(const Pipeline& pipeline, std::int64_t devices) {
  Verdict verdict("degrees");
  each_range(pipeline, [&](std::size_t, const LayerRange& range) {
    const Strategy& s = range.strategy;
    verdict.require(s.tp >= 1 && s.cp >= 1 && s.dp >= 1 && s.ep >= 1 && s.etp >= 1 && s.shard >= 1, [&] {
      return say("tp ", s.tp, ", cp ", s.cp, ", dp ", s.dp, ", ep ", s.ep, ", etp ", s.etp, ", shard ", s.shard);
    });
    const std::int64_t world = saturating_product({s.tp, s.cp, s.dp, pipeline.schedule.stages});
    verdict.require(world == devices, [&] {
      return say("tp ", s.tp, " · cp ", s.cp, " · dp ", s.dp, " · pp ", pipeline.schedule.stages, " = ", world,
                 ", the cluster has ", devices, " devices");
    });
  });
  return verdict.finding(say("tp·cp·dp·pp = ", devices));
}

Finding check_placement(const Pipeline& pipeline, std::int64_t devices, bool numbered) {
  Verdict verdict("stage-placement");
  const std::vector<Stage>& stages = pipeline.stages;
  const std::int64_t expected = devices / static_cast<std::int64_t>(stages.size());
  for (std::size_t i = 0; i < stages.size(); ++i) {
    std::int64_t held = 0;
    each_device(stages[i], devices, [&](std::int64_t) { ++held; });
    verdict.require(held == expected, [&] { return say("stage ", i, " holds ", held, " devices of ", expected); });
  }
  return verdict.finding(numbered
                             ? say("stages hold the devices that the order ", to_string(pipeline.strategy().order), " gives them")
                             : say("stages hold the devices that the plan gives them, ", expected, " each"));
}

/// Checks the order of ranks, which is the order in which a stage lists its devices. Every group of tensor, context
/// and data parallelism follows from it.
Finding check_device_order(const Pipeline& pipeline, const Model& model, const Cluster& cluster, const Listed* listed) {
  Verdict verdict("device-order");
  if (listed == nullptr) return verdict.finding("every stage lists its devices in its rank order");
  const std::string uneven = uneven_groups(pipeline, *listed, cluster, check::has_experts(model));
  verdict.require(uneven.empty(), [&] { return uneven; });
  return verdict.finding("stages list devices in custom orders, in which all groups of a kind have the same layout");
}

}  // namespace

std::vector<Finding> check_structure(const Plan& plan, const Model& model, const Cluster& cluster, PlanPart part) {
  const Pipeline& pipeline = plan.only_pipeline();
  std::vector<Finding> findings;
  findings.push_back(check_schedule(pipeline));
  if (!findings.back().ok) return findings;  // The checks below would index invalid stages.
  findings.push_back(check_coverage(pipeline, model));
  const std::int64_t devices = device_count(cluster);
  const bool unlike = unlike_stages(pipeline, cluster, part);
  findings.push_back(check_devices(pipeline, devices, unlike));
  const bool devices_ok = findings.back().ok;
  findings.push_back(check_strategies(pipeline, model));
  if (unlike) {
    findings.push_back(check_positive_degrees(pipeline));
    if (devices_ok && findings.back().ok) findings.push_back(check_unlike_placement(pipeline, cluster));
    if (devices_ok && findings.back().ok && has_rank_kinds(pipeline, cluster)) findings.push_back(check_shares(pipeline));
    return findings;
  }
  findings.push_back(check_degrees(pipeline, devices));
  if (devices_ok && findings.back().ok) {
    const std::shared_ptr<const Listed> listed = listed_devices(pipeline);
    findings.push_back(check_placement(pipeline, devices, listed == nullptr));
    if (findings.back().ok) findings.push_back(check_device_order(pipeline, model, cluster, listed.get()));
  }
  return findings;
}

}  // namespace espalier::check
