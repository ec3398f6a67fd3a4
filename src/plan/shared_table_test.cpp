// SPDX-License-Identifier: Apache-2.0
// Tests which stages hold a copy of the token table, and that embedding and head agree on its layout.
#include "plan/shared_table.h"

#include <gtest/gtest.h>

#include <functional>

#include "plan/rules.h"
#include "plan/structure.h"
#include "plan/test_problem.h"

namespace espalier {
namespace {

using namespace plan_test;
using Chunks = std::vector<std::int32_t>;

Chunks copies(const Model& model, ScheduleKind kind, std::int32_t stages, std::int32_t v,
              const std::vector<std::int32_t>& layers) {
  std::vector<ChunkId> out;
  table_chunks(model, {kind, stages, v, 8, 1}, layers, out);
  Chunks numbers;
  for (const ChunkId chunk : out) numbers.push_back(chunk.value);
  return numbers;
}

/// Returns embedding, encoder, encoder, decoder, decoder, head.
Model t5(bool tied) {
  auto model = load_model(std::string(R"({"model_type": "t5", "d_model": 32, "d_kv": 16, "num_heads": 4, "d_ff": 96, )") +
                              R"("num_layers": 2, "num_decoder_layers": 2, "vocab_size": 128, "tie_word_embeddings": )" +
                              (tied ? "true}" : "false}"),
                          "toy");
  return *model;
}

TEST(SharedTable, HeadsThatAreTied) {
  Model model = decoder({});
  EXPECT_EQ(copies(model, ScheduleKind::one_f_one_b, 2, 1, {5, 5}), Chunks{});
  model.tied_embeddings = true;
  EXPECT_EQ(copies(model, ScheduleKind::one_f_one_b, 2, 1, {5, 5}), (Chunks{0, 1}));
  EXPECT_EQ(copies(model, ScheduleKind::interleaved, 2, 2, {2, 3, 2, 3}), (Chunks{0, 3}));
  EXPECT_EQ(copies(model, ScheduleKind::zb_v, 2, 2, {2, 3, 2, 3}), Chunks{});  // stage 0 has both ends
  EXPECT_EQ(copies(model, ScheduleKind::one_f_one_b, 1, 1, {10}), Chunks{});
}

// The first decoder block is layer 3: it looks tokens up in the embedding's table, whether or not the head is tied.
TEST(SharedTable, EncoderAndDecoder) {
  EXPECT_EQ(second_lookup_layer(t5(true)), 3);
  EXPECT_EQ(copies(t5(true), ScheduleKind::one_f_one_b, 3, 1, {2, 2, 2}), (Chunks{0, 1, 2}));
  EXPECT_EQ(copies(t5(false), ScheduleKind::one_f_one_b, 3, 1, {2, 2, 2}), (Chunks{0, 1}));
  EXPECT_EQ(copies(t5(true), ScheduleKind::one_f_one_b, 2, 1, {3, 3}), (Chunks{0, 1}));  // with the head: one copy
  // The decoder is on the stage of the embedding; the head has its own copy.
  EXPECT_EQ(copies(t5(true), ScheduleKind::one_f_one_b, 2, 1, {4, 2}), (Chunks{0, 1}));
  EXPECT_EQ(copies(t5(false), ScheduleKind::one_f_one_b, 2, 1, {4, 2}), Chunks{});  // with the embedding
  // Embedding and head are on stage 0.
  EXPECT_EQ(copies(t5(true), ScheduleKind::zb_v, 2, 2, {1, 1, 2, 2}), (Chunks{0, 2}));
  EXPECT_EQ(copies(t5(true), ScheduleKind::interleaved, 2, 2, {1, 2, 1, 2}), (Chunks{0, 3}));  // decoder on stage 0
  // Decoder and head are on stage 1.
  EXPECT_EQ(copies(t5(true), ScheduleKind::interleaved, 2, 2, {1, 3, 1, 1}), (Chunks{0, 1}));
}

// A frozen table has copies, which take memory, but no gradients: stages exchange nothing for it.
TEST(SharedTable, FrozenCopiesExchangeNothing) {
  Model model = t5(true);
  Schedule three{ScheduleKind::one_f_one_b, 3, 1, 8, 1};
  ProgramStructure structure;
  structure_of(model, Strategy{}, three, {2, 2, 2}, structure);
  EXPECT_TRUE(trains_table(model));
  EXPECT_EQ(structure.table_chunks.size(), 3u);
  EXPECT_EQ(structure.collectives(), 1);
  Training training;
  training.freeze = {"embedding"};
  ASSERT_TRUE(mark_trained(model, training, "training").ok());
  structure_of(model, Strategy{}, three, {2, 2, 2}, structure);
  EXPECT_FALSE(trains_table(model));
  EXPECT_TRUE(structure.table_chunks.empty());
  EXPECT_EQ(structure.collectives(), 0);
  EXPECT_EQ(copies(model, ScheduleKind::one_f_one_b, 3, 1, {2, 2, 2}), (Chunks{0, 1, 2}));
}

TEST(SharedTable, LayerThatUsesIt) {
  EXPECT_EQ(table_layer(t5(true), 0, 5), 0);
  EXPECT_EQ(table_layer(t5(true), 2, 5), 3);
  EXPECT_EQ(table_layer(t5(true), 4, 5), 5);
  EXPECT_EQ(table_layer(t5(false), 4, 5), -1);
}

/// Returns ten layers on two stages of four devices, tied; the head has a strategy of its own.
Plan with_head(const Strategy& head) {
  Schedule two;
  two.stages = 2;
  two.microbatches = 4;
  Strategy s;
  s.dp = 2;
  s.tp = 2;
  s.zero = ZeroStage::optimizer;
  s.shard = 2;
  Plan plan = make_uniform_plan(decoder({}), cluster(1, 8), training(128, 8), "generic", s, two, SplitPolicy::balanced);
  const std::int32_t first = plan.only_pipeline().stages[1].chunks[0].first();
  plan.only_pipeline().stages[1].chunks[0].ranges = {{first, 8, s}, {9, 9, head}};
  return plan;
}

// Only tp, sp, cp, dp, zero and shard decide the layout of the table.
TEST(SharedTable, RuleTiedTable) {
  Model tied = decoder({});
  tied.tied_embeddings = true;
  Strategy same = with_head({}).strategy();
  EXPECT_TRUE(plan_violations(tied, with_head(same)).empty());
  same.overlap.p2p = true;
  same.recompute = {RecomputeKind::full, 1};
  same.order = RankOrder::tp_cp_pp_dp;
  same.ep = 2;
  EXPECT_TRUE(plan_violations(tied, with_head(same)).empty());
  const std::vector<std::function<void(Strategy&)>> changes = {[](Strategy& s) {
                                                                 s.tp = 4;
                                                                 s.dp = 1;
                                                               },
                                                               [](Strategy& s) { s.sp = SequenceParallel::megatron; },
                                                               [](Strategy& s) {
                                                                 s.cp = 2;
                                                                 s.dp = 1;
                                                               },
                                                               [](Strategy& s) { s.zero = ZeroStage::parameters; },
                                                               [](Strategy& s) {
                                                                 s.zero = ZeroStage::none;
                                                                 s.shard = 1;
                                                               }};
  for (const auto& change : changes) {
    Strategy other = with_head({}).strategy();
    change(other);
    const auto broken = plan_violations(tied, with_head(other));
    ASSERT_EQ(broken.size(), 1U);
    EXPECT_EQ(broken[0].rule, "tied-table");
    EXPECT_TRUE(plan_violations(decoder({}), with_head(other)).empty());  // separate tables
  }
  Strategy other = with_head({}).strategy();
  other.tp = 4;
  other.dp = 1;
  other.zero = ZeroStage::none;
  other.shard = 1;
  EXPECT_EQ(plan_violations(tied, with_head(other))[0].text,
            "the embedding has its table with TP2·DP2 ZeRO-1, the head has the same table with TP4");
  bool listed = false;
  for (const auto& [name, sentence] : rule_catalogue()) listed |= name == "tied-table";
  EXPECT_TRUE(listed);
}

}  // namespace
}  // namespace espalier
