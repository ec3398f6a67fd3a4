// SPDX-License-Identifier: Apache-2.0
#include "galvatron/profiled_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "galvatron/plan_conversion.h"
#include "reference/v1_fixture.h"

namespace espalier::reference {
namespace {

using namespace galvatron;

ProfiledModel tiny(std::int32_t layers) {
  ProfiledModel model;
  model.devices = 4;
  model.batch = 8;
  model.types = {{{96, {{1, 40}, {2, 24}, {4, 16}}, 8}, {2, 1}, 1024, 1024}};
  model.layers.assign(static_cast<std::size_t>(layers), 0);
  model.one_stage = {{{1, 800}, {2, 480}}, {{1, 20}, {2, 12}}};
  model.first_stage = {{{1, 400}}, {{1, 10}}};
  model.last_stage = {{{1, 200}}, {{1, 30}}};
  model.other_forward = {1, 0};
  model.all_reduce.gb_per_s = {{{4, true}, 64}, {{2, true}, 32}, {{2, false}, 16}};
  model.p2p.gb_per_s = {{2, 8}};
  model.overlap_slowdown = 1.25;
  return model;
}

// One head has no groups. With room for everything, plain data parallelism is fastest: 2 layers of 15 ms + 0.28125
// ms, and 2 + 4 ms with 1.171875/5 ms for embedding and head.
TEST(ProfiledPlanner, WithRoomForEverything) {
  ProfiledModel model = tiny(2);
  model.heads = 1;
  const auto plan = plan_profiled(model, {16 * 1024, DataParallelType::ddp, 1, 1});
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_EQ(strategies_text(*plan), "1-1-4×2");
  EXPECT_NEAR(plan->seconds, 0.001 * (2 * 15.28125 + 6 + 1.171875 / 5), 1e-12);
  EXPECT_DOUBLE_EQ(plan->main_seconds, plan->seconds);
  EXPECT_EQ(plan->stages[0].memory_mb, 2 * 464 + 800 + 40 + 1024);
}

/// Tries every choice of a single stage, one by one.
double by_trying_all(const ProfiledModel& model, std::int64_t memory_mb, std::int64_t chunks) {
  const ProfiledPipeline pipeline{1, chunks};
  const std::size_t n = model.layers.size();
  double best = std::numeric_limits<double>::infinity();
  for (const std::int32_t limit : {0, 2, 4}) {
    std::vector<ProfiledStrategy> all;
    for (const std::int32_t group : {1, 2, 4})
      for (const bool ulysses : {false, true})
        for (const DataParallelType type : {DataParallelType::zero2, DataParallelType::zero3})
          for (const bool checkpoint : {false, true}) {
            if (group == 1 ? ulysses : !ulysses && group > limit) continue;
            if (group == 4 && type == DataParallelType::zero3) continue;
            all.push_back({group, ulysses, 4 / group, group == 4 ? DataParallelType::ddp : type, checkpoint});
          }
    for (const std::int32_t group : {1, 2})
      for (const bool ulysses : {false, true})
        for (const DataParallelType type : {DataParallelType::zero2, DataParallelType::zero3}) {
          if (group == 1 ? ulysses : !ulysses && group > limit) continue;
          const VocabularyStrategy v{group, ulysses, type};
          const auto other_mb =
              static_cast<std::int64_t>(std::ceil(other_memory_mb(model, v, pipeline)[0] + buffer_mb(model, limit, pipeline)));
          const ProfiledSeconds other = other_seconds(model, v, pipeline)[0];
          const std::function<void(std::size_t, std::size_t, double, double, std::int64_t)> extend =
              [&](std::size_t layer, std::size_t before, double steady, double sync, std::int64_t mb) {
                if (mb > usable_mb(memory_mb)) return;
                if (layer == n) best = std::min(best, static_cast<double>(chunks) * steady + sync);
                if (layer == n) return;
                for (std::size_t k = 0; k < all.size(); ++k) {
                  const ProfiledSeconds t = layer_seconds(model, model.types[0], all[k], pipeline);
                  const double step = layer > 0 ? transition_seconds(model, model.types[0], all[before], all[k], pipeline) : 0;
                  const double own = layer_memory_mb(model, model.types[0], all[k], pipeline, 0);
                  extend(layer + 1, k, steady + t.steady + step, sync + t.sync, mb + static_cast<std::int64_t>(std::ceil(own)));
                }
              };
          extend(0, 0, other.steady, other.sync, other_mb);
        }
  }
  return best;
}

TEST(ProfiledPlanner, OneStageEqualsTryingAll) {
  const ProfiledModel model = tiny(3);
  for (const std::int64_t memory : {1300, 1500, 1600, 1750, 1900, 2300})
    for (const std::int64_t chunks : {1, 2}) {
      const auto plan = plan_profiled(model, {memory, DataParallelType::zero2, 1, chunks});
      const double expected = by_trying_all(model, memory, chunks);
      ASSERT_EQ(plan.ok(), std::isfinite(expected)) << memory << " MB, " << chunks;
      if (!plan.ok()) continue;
      EXPECT_NEAR(plan->seconds, expected, 1e-9 * expected) << memory << " MB, " << chunks << ": " << strategies_text(*plan);
      EXPECT_LE(plan->stages[0].memory_mb, usable_mb(memory));
    }
}

TEST(ProfiledPlanner, SeveralStages) {
  const ProfiledModel model = tiny(5);
  const auto plan = plan_profiled(model, {4096, DataParallelType::zero2, 2, 4});
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_EQ(plan->document.pp, 2);
  ASSERT_EQ(plan->stages.size(), 2u);
  EXPECT_EQ(plan->stages[0].layers + plan->stages[1].layers, 5);
  const auto& a = plan->stages[0].seconds;
  const auto& b = plan->stages[1].seconds;
  EXPECT_NEAR(plan->seconds, a.steady + b.steady + 3 * std::max(a.steady, b.steady) + std::max(a.sync, b.sync), 1e-12);
  EXPECT_DOUBLE_EQ(plan->main_seconds, main_pipeline_seconds({a, b}, 4));
  for (const ProfiledStage& stage : plan->stages) EXPECT_LE(stage.memory_mb, 4096);
}

TEST(ProfiledPlanner, MoreRoomIsNeverSlower) {
  const ProfiledModel model = tiny(4);
  double before = std::numeric_limits<double>::infinity();
  for (std::int64_t memory = 1200; memory <= 4200; memory += 250) {
    const auto plan = plan_profiled(model, {memory, DataParallelType::zero2, 0, 0});
    if (!plan.ok()) continue;
    EXPECT_LE(plan->seconds, before * (1 + 1e-12)) << memory;
    before = plan->seconds;
  }
  EXPECT_TRUE(std::isfinite(before));
}

TEST(ProfiledPlanner, NothingFits) {
  const auto plan = plan_profiled(tiny(2), {1000, DataParallelType::zero2, 0, 0});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().kind, ErrorKind::infeasible);
  EXPECT_FALSE(plan_profiled(tiny(2), {100000, DataParallelType::zero2, 0, 7}).ok());
}

/// Returns the authors' measurements of Llama 2 7B on eight GPUs (examples/galvatron).
ProfiledModel llama2_7b(std::int64_t batch) {
  const auto text = [](const std::string& name) { return source_file("examples/galvatron/" + name); };
  ProfileFiles files;
  files.computation = *read_computation_profile(text("computation_profiling_bf16_llama2-7b.json"), "c");
  files.memory = *read_memory_profile(text("memory_profiling_bf16_llama2-7b.json"), "m");
  files.all_reduce = *read_all_reduce_bandwidth(text("allreduce_bandwidth_1nodes_8gpus_per_node.json"), "a");
  files.p2p = *read_p2p_bandwidth(text("p2p_bandwidth_1nodes_8gpus_per_node.json"), "p");
  files.collectives = *read_collective_times(text("sp_time_1nodes_8gpus_per_node.json"), "s");
  files.overlap_slowdown = *read_overlap_coefficient(text("overlap_coefficient.json"), "o");
  Model model;
  model.kinds.resize(3);
  model.kinds[0].role = LayerRole::embedding;
  model.kinds[2].role = LayerRole::head;
  model.kinds[1].hidden = 4096;
  model.layers.assign(34, 1);
  model.layers.front() = 0;
  model.layers.back() = 2;
  Training training;
  training.sequence.main = 2048;
  training.global_batch = batch;
  auto read = profiled_model(files, model, training, 8);
  ESPALIER_CHECK(read.ok());
  return *read;
}

// This is the plan that the authors ship for these measurements. Every layer has ZeRO-3, the first 20 of 32 are
// recomputed, there is one micro-batch, and embedding and head use Ulysses over two ranks with ZeRO-3. By hand: 29491
// MB are usable. Layers take ⌈398.5 + 2·514.6⌉ = 1428 MB or ⌈398.5 + 2·32⌉ = 463 MB, the rest takes ⌈4130.3·0.128 +
// 4·358.8 + 1024⌉ = 2989 MB. In total, 20·463 + 12·1428 + 2989 = 29385.
TEST(ProfiledPlanner, ThePlanThatTheAuthorsShip) {
  const auto plan = plan_profiled(llama2_7b(16), {36 * 1024, DataParallelType::zero2, 0, 0});
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_EQ(plan->document.chunks, 1);
  EXPECT_EQ(strategies_text(*plan), "1-1-8f-c×20, 1-1-8f×12");
  EXPECT_EQ(plan->document.vocab_tp, 2);
  EXPECT_TRUE(plan->document.vocab_ulysses);
  EXPECT_TRUE(plan->document.vocab_zero3);
  EXPECT_EQ(plan->stages[0].memory_mb, 29385);
}

}  // namespace
}  // namespace espalier::reference
