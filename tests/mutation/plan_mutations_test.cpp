// SPDX-License-Identifier: Apache-2.0
// Breaks plans in one way each: the finding of the right name fails.
#include "cases.h"
#include "plan/listed_devices.h"
#include "tables.h"
#include "tools.h"

namespace espalier::mutation {
namespace {

/// Exchanges two devices of the lists; returns true if groups of a kind then have different placements.
bool exchange_places(Case& c, std::size_t stage, std::int64_t place, std::size_t other_stage, std::int64_t other_place) {
  std::vector<Stage>& stages = c.plan.only_pipeline().stages;
  StageDevices devices = stage_devices(c.plan.only_pipeline());
  if (std::max(stage, other_stage) >= stages.size()) return false;
  std::vector<std::int64_t>&one = devices[stage], &other = devices[other_stage];
  if (place >= static_cast<std::int64_t>(one.size()) || other_place >= static_cast<std::int64_t>(other.size())) return false;
  std::swap(one[static_cast<std::size_t>(place)], other[static_cast<std::size_t>(other_place)]);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    stages[i].devices.clear();
    for (const std::int64_t device : devices[i]) stages[i].devices.push_back({device, 1, 1});
  }
  return !unpriced_placement(c.plan, c.model, c.cluster).ok();
}

std::int64_t nodes_devices(const Case& c) { return c.cluster.groups.front().devices_per_node; }

}  // namespace

std::vector<Mutation> plan_mutations() {
  return {
      {"a layer is dropped", "coverage",
       [](Case& c) {
         LayerRange& range = c.plan.only_pipeline().stages.front().chunks.front().ranges.front();
         return range.last > range.first ? (--range.last, true) : false;
       }},
      {"a layer is computed twice", "coverage",
       [](Case& c) {
         return c.plan.only_pipeline().stages.size() > 1
                    ? (--c.plan.only_pipeline().stages[1].chunks[0].ranges.front().first, true)
                    : false;
       }},
      {"the last layer does not exist", "coverage",
       [](Case& c) {
         for (Stage& stage : c.plan.only_pipeline().stages) {
           for (Chunk& chunk : stage.chunks) {
             LayerRange& range = chunk.ranges.back();
             if (range.last + 1 == static_cast<std::int32_t>(c.model.layers.size())) ++range.last;
           }
         }
         return true;
       }},
      {"two stages are exchanged", "coverage",
       [](Case& c) {
         return c.plan.only_pipeline().stages.size() > 1
                    ? (std::swap(c.plan.only_pipeline().stages[0], c.plan.only_pipeline().stages[1]), true)
                    : false;
       }},
      {"a stage takes a device of another", "stage-placement",
       [](Case& c) {
         if (c.plan.only_pipeline().stages.size() < 2) return false;
         std::vector<DeviceRange>& devices = c.plan.only_pipeline().stages[1].devices;
         const DeviceRange all = devices.back();
         if (all.count < 2) return false;
         --devices.back().count;
         if (devices.back().count == 1) devices.back().stride = 1;
         c.plan.only_pipeline().stages[0].devices.push_back({all.first + (all.count - 1) * all.stride, 1, 1});
         return true;
       }},
      {"a device is in two stages", "devices-once",
       [](Case& c) {
         return c.plan.only_pipeline().stages.size() > 1
                    ? (c.plan.only_pipeline().stages[1].devices = c.plan.only_pipeline().stages[0].devices, true)
                    : false;
       }},
      {"a device does not exist", "devices-once",
       [](Case& c) {
         c.plan.only_pipeline().stages.back().devices.back().first += 1;
         return true;
       }},
      // A plan's own orders are priced where groups of a kind have equal placements; these tear single
      // groups across nodes.
      {"a tensor group is torn across nodes", "device-order",
       [](Case& c) { return exchange_places(c, 0, 1, 0, nodes_devices(c)); }},
      {"two stages exchange one device", "device-order", [](Case& c) { return exchange_places(c, 0, 0, 1, 1); }},
      {"a stage is missing", "schedule",
       [](Case& c) {
         c.plan.only_pipeline().stages.pop_back();
         return true;
       }},
      {"a chunk is missing", "schedule",
       [](Case& c) {
         c.plan.only_pipeline().stages.back().chunks.pop_back();
         return true;
       }},
      {"virtual stages without interleaving", "schedule",
       [](Case& c) {
         c.plan.only_pipeline().schedule.kind = ScheduleKind::one_f_one_b;
         ++c.plan.only_pipeline().schedule.virtual_stages;
         return true;
       }},
      {"one stage has another strategy", "degrees",
       [](Case& c) {
         return c.plan.only_pipeline().stages.size() > 1
                    ? (c.plan.only_pipeline().stages.back().chunks.back().ranges.front().strategy.cp *= 2, true)
                    : false;
       }},
      {"tp is twice what the devices allow", "degrees", strategy_change([](Strategy& s) { s.tp *= 2; })},
      {"dp is zero", "degrees", strategy_change([](Strategy& s) { s.dp = 0; })},
      {"micro-batches do not make the batch", "batch",
       [](Case& c) {
         ++c.plan.training.global_batch;
         return true;
       }},
      {"the schedule has one micro-batch more", "batch",
       [](Case& c) {
         c.plan.only_pipeline().schedule.microbatches *= 2;
         return true;
       }},
      {"the shard group does not divide", "sharding", strategy_change([](Strategy& s) {
         s.zero = ZeroStage::optimizer;
         s.shard = 3;
       })},
      {"sharded without ZeRO", "sharding", strategy_change([](Strategy& s) {
         s.zero = ZeroStage::none;
         s.shard = 2;
       })},
      {"ZeRO stage 4", "sharding", strategy_change([](Strategy& s) { s.zero = ZeroStage{4}; })},
      {"more layers recomputed than there are", "recompute", strategy_change([](Strategy& s) {
         s.recompute = {RecomputeKind::full, 99};
       })},
      {"layers recomputed without recomputation", "recompute", strategy_change([](Strategy& s) {
         s.recompute = {RecomputeKind::none, 1};
       })},
      {"modules recomputed without selective recomputation", "recompute", strategy_change([](Strategy& s) {
         s.recompute = {RecomputeKind::none, 0, {RecomputeModule::mlp}};
       })},
      {"experts without experts", "experts",
       [](Case& c) {
         for (const LayerKind& kind : c.model.kinds)
           for (const Operator& op : kind.operators)
             if (op.experts > 0) return false;
         for_all_strategies(c.plan, [](Strategy& s) { s.ep = 2; });
         return true;
       }},
      {"more expert ranks than experts", "experts",
       [](Case& c) { return strategy_of(c.plan).ep > 1 && (for_all_strategies(c.plan, [](Strategy& s) { s.ep = 16; }), true); }},
      {"experts over ranks that are not there", "experts",
       [](Case& c) { return strategy_of(c.plan).ep > 1 && (for_all_strategies(c.plan, [](Strategy& s) { s.etp = 7; }), true); }},
      {"tp overlap without sequence parallelism", "overlap",
       [](Case& c) {
         if (!c.plan.uniform()) return false;  // there the ranges disagree: "strategies"
         for_all_strategies(c.plan, [](Strategy& s) {
           s.sp = SequenceParallel::none;
           s.overlap.tp = true;
         });
         return true;
       }},
      {"a sequence that cannot be cut", "sequence",
       [](Case& c) { return strategy_of(c.plan).cp > 1 ? (c.plan.training.sequence.main = 127, true) : false; }},
      {"a sequence beyond the positions", "positions",
       [](Case& c) { return c.model.max_positions > 0 && (c.plan.training.sequence.main = 1 << 20, true); }},
      {"an engine nobody knows", "engine",
       [](Case& c) {
         c.plan.engine = "nonesuch";
         return true;
       }},
      {"a precision the devices lack", "precision",
       [](Case& c) {
         c.cluster.groups.front().device.peak.fill(TFLOPs(0));
         return true;
       }},
  };
}

TEST(Mutation, BrokenPlansAreRejected) { expect_rejected(plan_mutations(), all_cases()); }

}  // namespace espalier::mutation
