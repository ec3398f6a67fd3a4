// SPDX-License-Identifier: Apache-2.0
// Plans broken in one way each: the finding of the right name fails.
#include "cases.h"
#include "tables.h"
#include "tools.h"

namespace espalier::mutation {
namespace {}  // namespace

std::vector<Mutation> plan_mutations() {
  return {
      {"a layer is dropped", "coverage",
       [](Case& c) {
         LayerRange& range = c.plan.stages.front().chunks.front().ranges.front();
         return range.last > range.first ? (--range.last, true) : false;
       }},
      {"a layer is computed twice", "coverage",
       [](Case& c) { return c.plan.stages.size() > 1 ? (--c.plan.stages[1].chunks[0].ranges.front().first, true) : false; }},
      {"the last layer does not exist", "coverage",
       [](Case& c) {
         for (Stage& stage : c.plan.stages) {
           for (Chunk& chunk : stage.chunks) {
             LayerRange& range = chunk.ranges.back();
             if (range.last + 1 == static_cast<std::int32_t>(c.model.layers.size())) ++range.last;
           }
         }
         return true;
       }},
      {"two stages are exchanged", "coverage",
       [](Case& c) { return c.plan.stages.size() > 1 ? (std::swap(c.plan.stages[0], c.plan.stages[1]), true) : false; }},
      {"two stages exchange their devices", "stage-placement",
       [](Case& c) {
         return c.plan.stages.size() > 1 ? (std::swap(c.plan.stages[0].devices, c.plan.stages[1].devices), true) : false;
       }},
      {"a device is in two stages", "devices-once",
       [](Case& c) { return c.plan.stages.size() > 1 ? (c.plan.stages[1].devices = c.plan.stages[0].devices, true) : false; }},
      {"a device does not exist", "devices-once", [](Case& c) { return c.plan.stages.back().devices.back().first += 1, true; }},
      {"two devices of a stage change places", "device-order",
       [](Case& c) {
         std::vector<DeviceRange>& devices = c.plan.stages.front().devices;
         if (devices.size() != 1 || devices.front().count < 2) return false;
         const DeviceRange all = devices.front();
         devices = {{all.first + all.stride, 1, 1}, {all.first, 1, 1}};
         if (all.count > 2) devices.push_back({all.first + 2 * all.stride, all.count - 2, all.count > 3 ? all.stride : 1});
         return true;
       }},
      {"a stage lists its devices backwards", "device-order",
       [](Case& c) {
         std::vector<DeviceRange>& devices = c.plan.stages.back().devices;
         if (devices.size() != 1 || devices.front().count < 2) return false;
         const DeviceRange all = devices.front();
         devices.clear();
         for (std::int64_t i = all.count; i-- > 0;) devices.push_back({all.first + i * all.stride, 1, 1});
         return true;
       }},
      {"every second device of a stage first", "device-order",
       [](Case& c) {
         std::vector<DeviceRange>& devices = c.plan.stages.front().devices;
         if (devices.size() != 1 || devices.front().count % 2 != 0 || devices.front().count < 4) return false;
         const DeviceRange all = devices.front();
         devices = {{all.first, all.count / 2, 2 * all.stride}, {all.first + all.stride, all.count / 2, 2 * all.stride}};
         return true;
       }},
      {"a stage is missing", "schedule", [](Case& c) { return c.plan.stages.pop_back(), true; }},
      {"a chunk is missing", "schedule", [](Case& c) { return c.plan.stages.back().chunks.pop_back(), true; }},
      {"virtual stages without interleaving", "schedule",
       [](Case& c) { return c.plan.schedule.kind = ScheduleKind::one_f_one_b, ++c.plan.schedule.virtual_stages, true; }},
      {"one stage has another strategy", "degrees",
       [](Case& c) {
         return c.plan.stages.size() > 1 ? (c.plan.stages.back().chunks.back().ranges.front().strategy.cp *= 2, true) : false;
       }},
      {"tp is twice what the devices allow", "degrees", strategy_change([](Strategy& s) { s.tp *= 2; })},
      {"dp is zero", "degrees", strategy_change([](Strategy& s) { s.dp = 0; })},
      {"micro-batches do not make the batch", "batch", [](Case& c) { return ++c.plan.training.global_batch, true; }},
      {"the schedule has one micro-batch more", "batch", [](Case& c) { return c.plan.schedule.microbatches *= 2, true; }},
      {"the shard group does not divide", "sharding",
       strategy_change([](Strategy& s) { s.zero = ZeroStage::optimizer, s.shard = 3; })},
      {"sharded without ZeRO", "sharding", strategy_change([](Strategy& s) { s.zero = ZeroStage::none, s.shard = 2; })},
      {"ZeRO stage 4", "sharding", strategy_change([](Strategy& s) { s.zero = ZeroStage{4}; })},
      {"more layers recomputed than there are", "recompute", strategy_change([](Strategy& s) {
         s.recompute = {RecomputeKind::full, 99};
       })},
      {"layers recomputed without recomputation", "recompute", strategy_change([](Strategy& s) {
         s.recompute = {RecomputeKind::none, 1};
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
         for_all_strategies(c.plan, [](Strategy& s) { s.sp = SequenceParallel::none, s.overlap.tp = true; });
         return true;
       }},
      {"a sequence that cannot be cut", "sequence",
       [](Case& c) { return strategy_of(c.plan).cp > 1 ? (c.plan.training.sequence.main = 127, true) : false; }},
      {"a sequence beyond the positions", "positions",
       [](Case& c) { return c.model.max_positions > 0 && (c.plan.training.sequence.main = 1 << 20, true); }},
      {"an engine nobody knows", "engine", [](Case& c) { return c.plan.engine = "nonesuch", true; }},
      {"a precision the devices lack", "precision",
       [](Case& c) { return c.cluster.groups.front().device.peak.fill(TFLOPs(0)), true; }},
  };
}

TEST(Mutation, BrokenPlansAreRejected) { expect_rejected(plan_mutations(), all_cases()); }

}  // namespace espalier::mutation
