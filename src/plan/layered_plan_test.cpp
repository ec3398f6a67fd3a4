// SPDX-License-Identifier: Apache-2.0
// Tests plans with different strategies per layer: their communication at the end of a step, and how validate()
// checks their ranges.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "espalier/plan.h"
#include "plan/structure.h"
#include "plan/test_problem.h"

namespace espalier::plan_test::layered_plan_test {
namespace {

using namespace plan_test;

Strategy spread(std::int32_t dp, std::int32_t tp, std::int32_t zero = 0) {
  Strategy s;
  s.dp = dp;
  s.tp = tp;
  s.zero = ZeroStage{zero};
  if (zero > 0) s.shard = static_cast<std::int32_t>(s.data_ranks());
  return s;
}

ProgramStructure facts(const Model& model, const std::vector<Strategy>& strategies, const Schedule& schedule,
                       const std::vector<std::int32_t>& layers) {
  std::vector<const Strategy*> all;
  for (const Strategy& s : strategies) all.push_back(&s);
  ProgramStructure out;
  structure_of(model, all, schedule, layers, out);
  return out;
}

// One of three strategies reduces, one gathers once per step, and one does neither: the plan does both.
TEST(LayeredLowering, SmallestExample) {
  const Model model = decoder({});
  Schedule two;
  two.stages = 2;
  two.microbatches = 4;
  const ProgramStructure split = facts(model, {spread(1, 4)}, two, {5, 5});
  EXPECT_FALSE(split.reduce_gradients || split.gather_parameters);
  const ProgramStructure mixed = facts(model, {spread(1, 4), spread(2, 2, 2), spread(4, 1)}, two, {5, 5});
  EXPECT_TRUE(mixed.reduce_gradients);   // because of dp 4; ZeRO-2 reduces with every micro-batch
  EXPECT_TRUE(mixed.gather_parameters);  // because of ZeRO-2
  EXPECT_FALSE(mixed.overlap_reduce || mixed.overlap_gather || mixed.overlap_p2p || !mixed.table_chunks.empty());
  EXPECT_EQ(mixed.buckets, (base::IndexedVector<ChunkId, std::uint8_t>{1, 1}));
}

// A switch counts if its collective exists; then all chunks are cut.
TEST(LayeredLowering, Overlap) {
  const Model model = decoder({});
  Schedule two;
  two.stages = 2;
  two.microbatches = 4;
  Strategy reduced = spread(4, 1);
  reduced.overlap.grad_reduce = true;
  const ProgramStructure some = facts(model, {spread(1, 4), reduced}, two, {3, 40});
  EXPECT_TRUE(some.overlap_reduce);
  EXPECT_FALSE(some.overlap_gather);
  EXPECT_EQ(some.buckets, (base::IndexedVector<ChunkId, std::uint8_t>{3, kMaxBuckets}));
  Strategy scattered = spread(4, 1, 3);  // reduces and gathers with every micro-batch
  scattered.overlap = {true, true, true, false};
  Strategy split = spread(1, 4);
  split.overlap.p2p = true;
  const ProgramStructure none = facts(model, {split, scattered}, two, {3, 3});
  EXPECT_FALSE(none.reduce_gradients || none.overlap_reduce || none.gather_parameters || none.overlap_gather);
  EXPECT_TRUE(none.overlap_p2p);
  EXPECT_EQ(none.buckets, (base::IndexedVector<ChunkId, std::uint8_t>{1, 1}));
  // In HSDP, replicas of the shards reduce once per step.
  scattered.shard = 2;
  EXPECT_TRUE(facts(model, {split, scattered}, two, {3, 3}).overlap_reduce);
}

// The order of the strategies does not matter, and equal strategies give the same result as one.
TEST(LayeredLowering, OrderMakesNoDifference) {
  Model model = decoder({8, 8, 8, 16, 512, 1000, 4, 256});
  model.tied_embeddings = true;
  Schedule two;
  two.stages = 2;
  two.microbatches = 4;
  std::vector<Strategy> all = {spread(1, 4), spread(4, 1, 1), spread(2, 2, 3), spread(4, 1), spread(2, 2, 2)};
  all[2].shard = 1 + (all[2].data_ranks() > 1);
  for (Strategy& s : all) s.overlap = {s.data_ranks() > 1, s.shards_optimizer(), true, false};
  for (std::size_t a = 0; a < all.size(); ++a) {
    ProgramStructure one;
    structure_of(model, all[a], two, {5, 5}, one);
    EXPECT_TRUE(facts(model, {all[a], all[a], all[a]}, two, {5, 5}) == one);
    EXPECT_EQ(one.table_chunks, (std::vector{ChunkId(0), ChunkId(1)}));
    for (std::size_t b = 0; b < all.size(); ++b)
      EXPECT_TRUE(facts(model, {all[a], all[b]}, two, {5, 5}) == facts(model, {all[b], all[a]}, two, {5, 5})) << a << " " << b;
  }
}

// ---- the document -------------------------------------------------------------------------------------------------

/// Returns ten layers on two stages of four devices: dp 4, then tp 4; dp 2 · tp 2, then dp 4 with ZeRO-3. A
/// micro-batch has four samples.
Plan example() {
  Schedule two;
  two.stages = 2;
  two.microbatches = 4;
  Plan plan =
      make_uniform_plan(decoder({}), cluster(1, 8), training(128, 16), "generic", spread(4, 1), two, SplitPolicy::balanced);
  plan.only_pipeline().stages[0].chunks[0].ranges = {{0, 2, spread(4, 1)}, {3, 4, spread(1, 4)}};
  plan.only_pipeline().stages[1].chunks[0].ranges = {{5, 8, spread(2, 2)}, {9, 9, spread(4, 1, 3)}};
  return plan;
}

TEST(LayeredDocument, SoundAndRead) {
  const Plan plan = example();
  EXPECT_TRUE(validate(plan).ok());
  EXPECT_FALSE(plan.uniform());
  EXPECT_EQ(plan.samples_per_microbatch(), 4);
  const auto read = plan_from_json(to_json(plan), "plan.json");
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_TRUE(*read == plan);
  EXPECT_NE(plan.label().find("layer-wise"), std::string::npos);
}

// Full recomputation counts the blocks of a range, so two ranges of one strategy are not one range.
TEST(LayeredDocument, RangesOfOneStrategy) {
  Plan one = example();
  Strategy s = spread(4, 1);
  s.recompute = {RecomputeKind::full, 1};
  one.only_pipeline().stages[0].chunks[0].ranges = {{0, 4, s}};
  one.only_pipeline().stages[1].chunks[0].ranges = {{5, 9, s}};
  Plan two = one;
  two.only_pipeline().stages[0].chunks[0].ranges = {{0, 2, s}, {3, 4, s}};
  EXPECT_TRUE(one.uniform());
  EXPECT_FALSE(two.uniform());
  EXPECT_NE(one.canonical_text(), two.canonical_text());
}

TEST(LayeredDocument, ValidateNamesTheRange) {
  const auto fault = [](const std::function<void(std::vector<LayerRange>&, Plan&)>& change) {
    Plan plan = example();
    change(plan.only_pipeline().stages[1].chunks[0].ranges, plan);
    const Status status = validate(plan);
    return !status.ok() ? status.error().where + ": " + status.error().found : std::string("accepted");
  };
  using Ranges = std::vector<LayerRange>;
  EXPECT_EQ(fault([](Ranges& r, Plan&) {
              ++r[1].first;
              ++r[1].last;
            }),
            "$.pipelines[0].stages[1].layers[1]: layers 10 … 10");
  EXPECT_EQ(fault([](Ranges& r, Plan&) { ++r[0].last; }), "$.pipelines[0].stages[1].layers[1]: layers 9 … 9");
  EXPECT_EQ(fault([](Ranges& r, Plan&) { std::swap(r[0], r[1]); }), "$.pipelines[0].stages[1].layers[0]: layers 9 … 9");
  EXPECT_EQ(fault([](Ranges& r, Plan&) { r[1].last = 8; }), "$.pipelines[0].stages[1].layers[1]: layers 9 … 8");
  EXPECT_EQ(fault([](Ranges& r, Plan&) { r.clear(); }), "$.pipelines[0].stages[1].layers: a chunk without layers");
  EXPECT_EQ(fault([](Ranges& r, Plan&) { r[1].strategy.dp = 8; }), "$.pipelines[0].stages[1].layers[1].strategy: dp 8");
  EXPECT_EQ(fault([](Ranges& r, Plan&) {
              r[1].strategy.dp = 2;
              r[1].strategy.shard = 2;
            }),
            "$.pipelines[0].stages[1]: 4 devices");
  EXPECT_EQ(fault([](Ranges& r, Plan&) { r[0].strategy.tp = 4; }), "$.pipelines[0].stages[1]: 4 devices");
  EXPECT_EQ(fault([](Ranges& r, Plan&) { r[1].strategy.shard = 3; }).substr(0, 43),
            "$.pipelines[0].stages[1].layers[1].strategy");
  EXPECT_EQ(fault([](Ranges& r, Plan&) { r[0].strategy.recompute.layers = 1; }).substr(0, 43),
            "$.pipelines[0].stages[1].layers[0].strategy");
  EXPECT_EQ(fault([](Ranges&, Plan& p) { p.only_pipeline().schedule.micro_batch = 2; }),
            "$.pipelines[0].schedule: 4 micro-batches · 2 · dp 4");
}

// A range with another dp takes another micro-batch; the message states the number of samples that dp must divide.
TEST(LayeredDocument, SamplesOfARange) {
  Plan plan = example();
  plan.only_pipeline().stages[0].chunks[0].ranges[0].strategy = spread(2, 2);
  plan.only_pipeline().schedule.microbatches = 8;
  const Status status = validate(plan);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().where, "$.pipelines[0].stages[1].layers[1].strategy");
  EXPECT_EQ(status.error().expected.substr(0, 27), "a divisor of the 2 samples ");
}

}  // namespace
}  // namespace espalier::plan_test::layered_plan_test
