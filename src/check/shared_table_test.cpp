// SPDX-License-Identifier: Apache-2.0
// Tests shared tables, replicated key/value heads, and gradients of experts alone, by hand.
#include <gtest/gtest.h>

#include "check/configuration_rules.h"
#include "check/test_problem.h"

namespace espalier::check::shared_table_test {
namespace {

using namespace test;

constexpr const char* kT5 = R"({"model_type": "t5", "d_model": 64, "d_ff": 128, "d_kv": 16, "num_heads": 4, "num_layers": 2,
  "num_decoder_layers": 2, "vocab_size": 1000, "dropout_rate": 0, "feed_forward_proj": "relu", "relative_attention_num_buckets": 8,
  "tie_word_embeddings": TIED})";

/// Makes a plan of embedding, two encoder blocks, two decoder blocks and head; `first` holds the first layer of each
/// stage.
Case t5_case(bool tied, const std::vector<std::int32_t>& first) {
  std::string config = kT5;
  config.replace(config.find("TIED"), 4, tied ? "true" : "false");
  Case c;
  c.model = load_model(config, "t5").value();
  const auto stages = static_cast<std::int32_t>(first.size());
  c.cluster = cluster_of(1);
  c.cluster.groups.front().devices_per_node = stages;
  Training training;
  training.sequence.encoder = training.sequence.decoder = 64;
  training.global_batch = 4;
  const Schedule schedule = schedule_of(ScheduleKind::one_f_one_b, stages, 1, 4);
  c.plan = make_uniform_plan(c.model, c.cluster, training, "generic", {}, schedule, SplitPolicy::balanced);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::int32_t end = i + 1 < first.size() ? first[i + 1] : 6;
    c.plan.only_pipeline().stages[i].chunks.front().ranges.front().first = first[i];
    c.plan.only_pipeline().stages[i].chunks.front().ranges.front().last = end - 1;
  }
  c.lower_again();
  return c;
}

// a = 4·64·64 = 16384, m = 2·64·128 = 16384, table 64000. An encoder block has a + m + 2·64. The first has another
// 8·4 buckets, the last its final norm. A decoder block has 2a + m + 3·64, the first another 32. The head has a norm
// of 64. An element takes 18 bytes.
constexpr std::int64_t kTable = 64000, kFirstEncoder = 32768 + 128 + 32, kLastEncoder = 32768 + 128 + 64;
constexpr std::int64_t kFirstDecoder = 49152 + 192 + 32, kLastDecoder = 49152 + 192, kHead = 64;

TEST(SharedTable, ThreeStagesOfT5HoldIt) {
  const Case c = t5_case(true, {0, 2, 4});
  const View view = make_view(c.plan, c.model, c.cluster);
  EXPECT_EQ(table_copies(view), (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(static_bytes_per_stage(view),
            (std::vector<std::int64_t>{18 * (kTable + kFirstEncoder), 18 * (kTable + kLastEncoder + kFirstDecoder),
                                       18 * (kTable + kLastDecoder + kHead)}));
}

TEST(SharedTable, DecoderAndHeadOnOneStageHoldOneCopy) {
  const Case c = t5_case(true, {0, 3});
  const View view = make_view(c.plan, c.model, c.cluster);
  EXPECT_EQ(table_copies(view), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(static_bytes_per_stage(view)[1], 18 * (kTable + kFirstDecoder + kLastDecoder + kHead));
}

// In T5 v1.1 the head has a table of its own, and the decoder still looks up tokens in the encoder's.
TEST(SharedTable, AnUntiedHeadLeavesTheDecodersCopy) {
  const Case c = t5_case(false, {0, 2, 4});
  const View view = make_view(c.plan, c.model, c.cluster);
  EXPECT_EQ(table_copies(view), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(static_bytes_per_stage(view)[1], 18 * (kTable + kLastEncoder + kFirstDecoder));
  EXPECT_EQ(static_bytes_per_stage(view)[2], 18 * (kTable + kLastDecoder + kHead));  // the head's own table
}

// A frozen copy takes two bytes an element. An exchange of its gradients is then an error.
TEST(SharedTable, FrozenCopiesExchangeNothing) {
  Case c = t5_case(true, {0, 2, 4});
  const Program exchanging = c.program;
  c.plan.training.freeze = {"embedding"};
  ASSERT_TRUE(mark_trained(c.model, c.plan.training, "training").ok());
  c.lower_again();
  EXPECT_EQ(static_bytes_per_stage(make_view(c.plan, c.model, c.cluster)),
            (std::vector<std::int64_t>{2 * kTable + 18 * kFirstEncoder, 2 * kTable + 18 * (kLastEncoder + kFirstDecoder),
                                       2 * kTable + 18 * (kLastDecoder + kHead)}));
  EXPECT_TRUE(find(check_plan(c.plan, c.model, c.cluster, c.program, nullptr), "tied-gradient")->ok);
  EXPECT_FALSE(find(check_plan(c.plan, c.model, c.cluster, exchanging, nullptr), "tied-gradient")->ok);
}

TEST(SharedTable, HasOneLayout) {
  Strategy plain, sharded;
  plain.dp = sharded.dp = 2;
  sharded.zero = ZeroStage::optimizer;
  sharded.shard = 2;
  const Model model = model_of(gpt(2));
  const auto finding = [&](const Strategy& head) {
    const Case c = make_layered_case(model, {{{0, 2, plain}, {3, 3, head}}}, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 2));
    return *find(c.check(), "tied-table");
  };
  EXPECT_TRUE(finding(plain).ok);
  EXPECT_FALSE(finding(sharded).ok);
  Strategy other_order = plain;
  other_order.recompute = {RecomputeKind::selective, 0};  // does not affect who holds what
  EXPECT_TRUE(finding(other_order).ok);
}

// There are 4 query and 2 key/value heads of 16 features over tp 4. A rank computes 16 rows of queries, and 16 + 16
// of one whole key/value head (not half of one): 48·(64 + 1) elements. The rest: norms 256, out 64·64/4 + 64, up
// 64·64 + 64, down 64·64 + 64, table 250·64, positions 128·64, head norm 128.
TEST(KeyValueReplication, ARankHoldsWholeHeads) {
  DecoderShape shape = gpt(1);
  shape.kv_heads = 2;
  Strategy s;
  s.tp = 4;
  const Case c = make_case(model_of(shape), s, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1));
  const std::int64_t block = 256 + 48 * 65 + (1024 + 64) + (4096 + 64) + (4096 + 64);
  EXPECT_EQ(static_bytes_per_stage(make_view(c.plan, c.model, c.cluster)).front(), 18 * (block + 250 * 64 + 128 * 64 + 128));
}

// A rank keeps one head, whether there are 2 or 4 key/value heads on four ranks.
TEST(KeyValueReplication, ARankKeepsOneHeadOfKeysAndValues) {
  Strategy s;
  s.tp = 4;
  std::vector<std::int64_t> saved;
  for (const std::int64_t heads : {2, 4}) {
    DecoderShape shape = gpt(1);
    shape.kv_heads = heads;
    const Case c = make_case(model_of(shape), s, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1));
    saved.push_back(saved_bytes_of_layer(make_view(c.plan, c.model, c.cluster), c.model.layer(1), RecomputeKind::none));
  }
  EXPECT_EQ(saved[0], saved[1]);
}

// tp 2 over two devices does not replicate dense weights; with ep 1 it holds the 8 experts in two replicas.
TEST(OverlapOfExperts, NeedsReplicasOfExpertsOnly) {
  DecoderShape shape = gpt(1);
  Strategy s;
  s.tp = 2;
  s.overlap.grad_reduce = true;
  const auto overlap = [&] {
    const Case c = make_case(model_of(shape), s, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 2));
    for (const Finding& f : check_rules(make_view(c.plan, c.model, c.cluster)))
      if (f.name == "overlap") return f.ok;
    return false;
  };
  EXPECT_FALSE(overlap());
  shape.experts = 8;
  shape.top_k = 2;
  EXPECT_TRUE(overlap());
  s.ep = 2;
  EXPECT_FALSE(overlap());
}

}  // namespace
}  // namespace espalier::check::shared_table_test
