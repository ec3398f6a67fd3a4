// SPDX-License-Identifier: Apache-2.0
// Tests the formulas with invented figures that can be counted by hand.
#include "galvatron/profiled_cost.h"

#include <gtest/gtest.h>

#include "plan/test_problem.h"

namespace espalier::galvatron {
namespace {

/// Returns four devices with batch 8 in bf16. One sample passes on 1024·1024·2 bytes = 2 MB; forward takes 2 ms per
/// sample and 1 ms.
ProfiledModel tiny() {
  ProfiledModel model;
  model.devices = 4;
  model.batch = 8;
  model.types = {{{96, {{1, 40}, {2, 24}, {4, 16}}, 8}, {2, 1}, 1024, 1024}};
  model.layers = {0, 0, 0, 0};
  model.one_stage = {{{1, 800}, {2, 480}}, {{1, 20}, {2, 12}}};
  model.first_stage = {{{1, 400}}, {{1, 10}}};
  model.last_stage = {{{1, 200}}, {{1, 30}}};
  model.other_forward = {1, 0};
  model.all_reduce.gb_per_s = {{{4, true}, 64}, {{2, true}, 32}, {{2, false}, 16}};
  model.p2p.gb_per_s = {{2, 8}};
  model.overlap_slowdown = 1.25;
  return model;
}

constexpr DataParallelType kDdp = DataParallelType::ddp, kZero2 = DataParallelType::zero2, kZero3 = DataParallelType::zero3;
constexpr ProfiledStrategy kDp4{1, false, 4, kDdp, false}, kDp4Zero3{1, false, 4, kZero3, false};
constexpr ProfiledStrategy kTp2{2, false, 2, kDdp, false}, kUlysses2{2, true, 2, kDdp, false};

// dp 4 gives 8/4 = 2 samples per rank. States are 4·96 = 384 MB, activations 2·40 = 80 MB.
TEST(ProfiledCost, MemoryOfALayerByHand) {
  const ProfiledModel model = tiny();
  const auto mb = [&](const ProfiledStrategy& s, const ProfiledPipeline& p = {1, 1}, std::int32_t stage = 0) {
    return layer_memory_mb(model, model.types[0], s, p, stage);
  };
  EXPECT_DOUBLE_EQ(mb(kDp4), 384 + 80);
  EXPECT_DOUBLE_EQ(mb({1, false, 4, kDdp, true}), 384 + 2 * 8);
  EXPECT_DOUBLE_EQ(mb(kDp4Zero3), 384 * 0.253 + 80);
  EXPECT_DOUBLE_EQ(mb(kTp2), 192 + 4 * 24);                                 // half the parameters, 4 samples
  EXPECT_DOUBLE_EQ(mb({2, false, 2, kDdp, true}), 192 + 4 * 8 / 2);         // kept activations are spread over the sequence
  EXPECT_DOUBLE_EQ(mb({2, true, 2, kZero3, false}), 384 * 0.253 + 4 * 24);  // Ulysses: all four ranks hold the weights
  // Two stages of two devices with two micro-batches of 4 samples give 2 per rank. Two are in flight on stage 0, one
  // on stage 1.
  const ProfiledStrategy dp2{1, false, 2, kDdp, false};
  EXPECT_DOUBLE_EQ(mb(dp2, {2, 2}, 0), 384 + 2 * 2 * 40);
  EXPECT_DOUBLE_EQ(mb(dp2, {2, 2}, 1), 384 + 2 * 40);
}

TEST(ProfiledCost, SharesOfStates) {
  ProfiledModel model = tiny();
  const double r = 0.253;
  EXPECT_EQ(states_ratio(model, kDdp, 4, 2), 1);
  EXPECT_DOUBLE_EQ(states_ratio(model, kZero3, 4, 1), r);
  EXPECT_DOUBLE_EQ(states_ratio(model, kZero2, 4, 1), 7.0 / 8 * r + 1.0 / 8);
  EXPECT_DOUBLE_EQ(states_ratio(model, kZero3, 4, 2), 7.0 / 8 * r + 1.0 / 8);
  EXPECT_DOUBLE_EQ(states_ratio(model, kZero2, 4, 2), 6.0 / 8 * r + 2.0 / 8);
  model.reduce_every_microbatch = false;
  EXPECT_DOUBLE_EQ(states_ratio(model, kZero3, 4, 2), 5.0 / 4 * r);
  EXPECT_DOUBLE_EQ(states_ratio(model, kZero2, 4, 2), 5.0 / 4 * (7.0 / 8 * r + 1.0 / 8));
  model.mixed_precision = false;
  EXPECT_DOUBLE_EQ(states_ratio(model, kZero2, 4, 2), 3.0 / 4 * r + 1.0 / 4);
  model.reduce_every_microbatch = true;
  EXPECT_DOUBLE_EQ(states_ratio(model, kZero2, 4, 2), 2.0 / 4 * r + 2.0 / 4);
  EXPECT_DOUBLE_EQ(states_ratio(model, kZero3, 4, 2), 3.0 / 4 * r + 1.0 / 4);
}

TEST(ProfiledCost, MemoryBesideTheLayers) {
  const ProfiledModel model = tiny();
  EXPECT_DOUBLE_EQ(other_memory_mb(model, {1, false, kZero3}, {1, 1})[0], 800 * 0.253 + 2 * 20 + 1024);
  EXPECT_DOUBLE_EQ(other_memory_mb(model, {2, false, kDdp}, {1, 1})[0], 480 + 4 * 12 + 1024);
  EXPECT_DOUBLE_EQ(other_memory_mb(model, {2, true, kDdp}, {1, 1})[0], 800 + 4 * 12 + 1024);  // Ulysses: whole tables
  // There are 2 samples per rank, with two micro-batches in flight on the first stage.
  const auto two = other_memory_mb(model, {1, false, kDdp}, {2, 2});
  EXPECT_DOUBLE_EQ(two[0], 400 + 2 * 2 * 10 + 1024);
  EXPECT_DOUBLE_EQ(two[1], 200 + 2 * 30 + 1024);
  EXPECT_EQ(buffer_mb(model, 0, {1, 1}), 0);
  EXPECT_DOUBLE_EQ(buffer_mb(model, 2, {1, 1}), 4 * 2);  // 4 samples of 2 MB
  EXPECT_EQ(usable_mb(36 * 1024), 29491);
  EXPECT_EQ(usable_mb(20 * 1024), 20480);
}

// dp 4 with 2 samples takes 2·2 + 1 = 5 ms forward and 10 backward. Gradients are 2·3/4·96/2 = 72 MB at 1/64 ms =
// 1.125 ms, both slowed by 1.25 while together. 1.125·1.25 + 8.875 instead of 10 adds 0.28125 ms.
TEST(ProfiledCost, TimeOfALayerByHand) {
  const ProfiledModel model = tiny();
  const auto ms = [&](const ProfiledStrategy& s, const ProfiledPipeline& p = {1, 1}) {
    const ProfiledSeconds t = layer_seconds(model, model.types[0], s, p);
    return std::pair(t.steady * 1000, t.sync * 1000);
  };
  EXPECT_DOUBLE_EQ(ms(kDp4).first, 15);
  EXPECT_NEAR(ms(kDp4).second, 0.28125, 1e-12);
  EXPECT_DOUBLE_EQ(ms({1, false, 4, kDdp, true}).first, 20);
  EXPECT_DOUBLE_EQ(ms(kDp4Zero3).first, 15 + 1.125 / 2);
  // tp 2 has 4 samples, of which each rank computes half, and six all-gathers of 8 MB, each 1/2·8/32 ms. Gradients
  // are 24 MB over strided ranks, 1.5 ms, overlapped with half of backward: 1.5·1.25 + 3.5 instead of 5.
  EXPECT_DOUBLE_EQ(ms(kTp2).first, 15 + 6 * 0.125);
  EXPECT_NEAR(ms(kTp2).second, 0.375, 1e-12);
  EXPECT_DOUBLE_EQ(ms({2, false, 2, kDdp, true}).first, 20 + 9 * 0.125);
  EXPECT_DOUBLE_EQ(ms(kUlysses2).first, 15 + 4 * 0.0625);  // four all-to-alls of half of that
  EXPECT_NEAR(ms(kUlysses2).second, 0.28125, 1e-12);       // gradients of whole weights over four ranks
  EXPECT_EQ(ms({4, false, 1, kDdp, false}).second, 0);
  // Two stages have 2 samples, 2·2·4 MB at 1/8 ms over four layers.
  EXPECT_DOUBLE_EQ(ms({1, false, 2, kDdp, false}, {2, 2}).first, 15 + 0.5);
}

TEST(ProfiledCost, MeasuredCollectives) {
  ProfiledModel model = tiny();
  model.collectives.all_reduce_ms = {{{2, 4}, 1.0}, {{2, 8}, 1.5}, {{2, 16}, 2.5}};
  // 8 MB is a measured size.
  EXPECT_NEAR(layer_seconds(model, model.types[0], kTp2, {1, 1}).steady, 0.001 * (15 + 6 * 0.75), 1e-15);
  model.batch = 12;  // 6 samples, 12 MB: on the line 0.5 + x/8, half of 2 ms; forward 2·3 + 1
  EXPECT_NEAR(layer_seconds(model, model.types[0], kTp2, {1, 1}).steady, 0.001 * (21 + 6 * 1.0), 1e-15);
  model.sequence_parallel = false;
  EXPECT_NEAR(layer_seconds(model, model.types[0], kTp2, {1, 1}).steady, 0.001 * (21 + 4 * 2.0), 1e-15);
}

// F = 2 ms. Gradients are 200 MB at 3/4·1/64 ms: 2.34375. ZeRO-3 gathers in both passes, 1.171875 each, hidden under
// work that runs 1.25 times longer. 1/5 of it is exposed.
TEST(ProfiledCost, TimeBesideTheLayers) {
  const ProfiledModel model = tiny();
  const ProfiledSeconds zero3 = other_seconds(model, {1, false, kZero3}, {1, 1})[0];
  EXPECT_NEAR(zero3.steady, 0.001 * (2 + 1.171875 / 5 + 4 + 1.171875 / 5), 1e-15);
  EXPECT_NEAR(zero3.sync, 0.001 * 1.171875 / 5, 1e-15);
  const ProfiledSeconds tensor = other_seconds(model, {2, false, kDdp}, {1, 1})[0];  // two all-gathers of 8 MB
  EXPECT_NEAR(tensor.steady, 0.001 * (2 + 4 + 2 * 0.125), 1e-15);
  const auto two = other_seconds(model, {1, false, kDdp}, {2, 2});  // half of 2 ms on each end
  EXPECT_NEAR(two[0].steady, 0.003, 1e-15);
  EXPECT_NEAR(two[1].steady, 0.003, 1e-15);
}

TEST(ProfiledCost, BetweenLayers) {
  const ProfiledModel model = tiny();
  const auto between = [&](const ProfiledStrategy& a, const ProfiledStrategy& b) {
    return transition_seconds(model, model.types[0], a, b, {1, 1});
  };
  // With group 2 on either side, 1/2 of 4 samples, 8·2^20 bytes, at 1/32, times the published 1e-7.
  EXPECT_NEAR(between(kDp4, kTp2), 0.5 * 8 * 1048576 / 32 * 1e-7, 1e-12);
  EXPECT_EQ(between(kTp2, kDp4), between(kDp4, kTp2));
  EXPECT_EQ(between(kDp4, kDp4), 0);
  EXPECT_EQ(between(kDp4, kDp4Zero3), 1e-9);
  EXPECT_EQ(between(kDp4Zero3, kDp4), 0);
  EXPECT_EQ(between(kDp4, {1, false, 4, kDdp, true}), 2e-9);
  EXPECT_EQ(between(kDp4, {1, false, 4, kZero3, true}), 3e-9);
  EXPECT_EQ(between(kDp4Zero3, {1, false, 4, kDdp, true}), 1e-9);
  EXPECT_EQ(between(kTp2, kUlysses2), 1e-10);
}

// s = (3, 2) and m = 4 give max(5 + 2·3, max(1, 2/3) + max(2, 4/3) + 3·3) = 12. The first stage still reduces for 0.5
// at the end.
TEST(ProfiledCost, PipelineOfTheMainBranch) {
  EXPECT_DOUBLE_EQ(main_pipeline_seconds({{3, 0.5}, {2, 1}}, 4), 12.5);
  EXPECT_DOUBLE_EQ(main_pipeline_seconds({{3, 0.5}}, 4), 12.5);
}

ProfileFiles files() {
  ProfileFiles out;
  out.computation.times = {{0, false, LayerPart::whole, 1, 64, 3}, {0, false, LayerPart::whole, 2, 64, 2.5}};
  out.memory.plain.layers[{0, 64}] = {96, {{1, 40}}, 8};
  out.memory.plain.one_stage[64] = {{{1, 800}}, {{1, 20}}};
  out.all_reduce.gb_per_s = {{{4, true}, 64}, {{2, true}, 32}};
  return out;
}

Result<ProfiledModel> read(const ProfileFiles& f, std::int64_t devices = 4) {
  return profiled_model(f, plan_test::decoder({}), plan_test::training(64, 8), devices);
}

TEST(ProfiledModelOf, FilesAndModel) {
  const auto model = read(files());
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->layers.size(), static_cast<std::size_t>(plan_test::decoder({}).blocks()));
  EXPECT_FALSE(model->sequence_parallel);
  EXPECT_NEAR(model->types[0].forward.per_sample, 2, 1e-12);  // 3 ms for one sample, 5 for two
  EXPECT_NEAR(model->types[0].forward.start, 1, 1e-12);
  EXPECT_EQ(model->other_forward.at(7), 0);  // not profiled
}

TEST(ProfiledModelOf, SaysWhatLacks) {
  const auto expect = [](const Result<ProfiledModel>& model, const std::string& part) {
    ASSERT_FALSE(model.ok());
    EXPECT_NE(model.error().message().find(part), std::string::npos) << model.error().message();
  };
  expect(read(files(), 6), "a power of two");
  expect(read(files(), 8), "allreduce_size_8");
  ProfileFiles f = files();
  f.memory.plain.layers.clear();
  expect(read(f), "no layertype_0 of sequence 64");
  f = files();
  f.computation.times.clear();
  expect(read(f), "no layertype_0_bsz");
  f = files();
  f.memory.plain.one_stage.clear();
  expect(read(f), "other_memory_pp_off");
  f = files();
  f.p2p.gb_per_s = {{2, 8}};
  expect(read(f), "other_memory_pp_on_first");
}

}  // namespace
}  // namespace espalier::galvatron
