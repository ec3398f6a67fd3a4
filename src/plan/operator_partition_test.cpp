// SPDX-License-Identifier: Apache-2.0
#include "plan/operator_partition.h"

#include <gtest/gtest.h>

#include "plan/rules.h"
#include "plan/test_problem.h"

namespace espalier::plan_test::operator_partition_test {
namespace {

TEST(OperatorPartition, SmallestExample) {
  const auto parsed = parse_operator_partition("attn.qkv K,P2; attn.core H,H,H");
  ASSERT_TRUE(parsed.ok());
  ASSERT_EQ(parsed->size(), 2U);
  EXPECT_EQ((*parsed)[0].name, "attn.qkv");
  EXPECT_EQ((*parsed)[0].sequence, (partition::PartitionSequence{partition::split('K'), partition::primitive(1)}));
  EXPECT_EQ(to_string(*parsed), "attn.qkv K,P2; attn.core H,H,H");
}

TEST(OperatorPartition, SpacesAreForgivenOnReading) {
  EXPECT_EQ(to_string(*parse_operator_partition(" a K,K ;b   N,N ")), "a K,K; b N,N");
}

TEST(OperatorPartition, WhatCannotBeReadIsNamed) {
  for (const char* text : {"", "attn.qkv", "attn.qkv K,Q", "attn.qkv P3", "a K; a N", "a K;; b N"})
    EXPECT_FALSE(parse_operator_partition(text).ok()) << text;
}

TEST(OperatorPartition, TheStreamBetweenBlocksIsCutAsTheLastOperatorLeavesIt) {
  Strategy s;
  s.tp = 4;
  EXPECT_EQ(s.partition.boundary(), "");
  s.partition = BlockPartition("a K,K; b R,R");
  EXPECT_EQ(s.partition.boundary(), "");
  s.partition = BlockPartition("a K,K; b M,R");
  EXPECT_EQ(s.partition.boundary(), "M");
  s.partition = BlockPartition("a K,K; b R,M");  // it matters which bit cuts
  EXPECT_EQ(s.partition.boundary(), "R,M");
}

// A partition is a value: it is parsed once, shared by copies, and equal and ordered as its text.
TEST(BlockPartition, IsParsedOnceAndSharedByCopies) {
  const BlockPartition one("a K,K; b M,R");
  const BlockPartition copy = one, again("a K,K; b M,R"), other("a K,K; b N,R");
  ASSERT_TRUE(one.operators().ok());
  EXPECT_EQ(one.operators()->size(), 2U);
  EXPECT_EQ((*one.operators())[1].name, "b");
  EXPECT_EQ(&*copy.operators(), &*one.operators());
  EXPECT_EQ(again, one);
  EXPECT_NE(other, one);
  EXPECT_LT(one, other);
  EXPECT_LT(BlockPartition(), one);
}

TEST(BlockPartition, NoneAndWhatCannotBeRead) {
  EXPECT_TRUE(BlockPartition().empty());
  EXPECT_TRUE(BlockPartition("").empty());
  EXPECT_EQ(BlockPartition(""), BlockPartition());
  EXPECT_EQ(BlockPartition().text(), "");
  EXPECT_FALSE(BlockPartition().operators().ok());
  const BlockPartition wrong("attn.qkv K,Q");
  EXPECT_EQ(wrong.text(), "attn.qkv K,Q");
  EXPECT_FALSE(wrong.empty());
  EXPECT_FALSE(wrong.operators().ok());
}

TEST(OperatorPartition, FaultsOfAStrategy) {
  Strategy s;
  s.tp = 4;
  EXPECT_EQ(partition_fault(s), "");
  s.partition = BlockPartition("a K,K; b R,R");
  EXPECT_EQ(partition_fault(s), "");
  const auto broken = [&](auto change) {
    Strategy other = s;
    change(other);
    return !partition_fault(other).empty();
  };
  EXPECT_TRUE(broken([](Strategy& x) { x.tp = 8; }));
  EXPECT_TRUE(broken([](Strategy& x) { x.tp = 3; }));
  EXPECT_TRUE(broken([](Strategy& x) { x.sp = SequenceParallel::megatron; }));
  EXPECT_TRUE(broken([](Strategy& x) { x.cp = 2; }));
  EXPECT_TRUE(broken([](Strategy& x) { x.etp = 4; }));
  EXPECT_TRUE(broken([](Strategy& x) { x.recompute.kind = RecomputeKind::selective; }));
  EXPECT_TRUE(broken([](Strategy& x) { x.partition = BlockPartition("a K,K;b R,R"); }));
  EXPECT_TRUE(broken([](Strategy& x) { x.partition = BlockPartition("a K,K; b R"); }));
  EXPECT_FALSE(broken([](Strategy& x) { x.recompute = {RecomputeKind::full, 2}; }));
}

TEST(OperatorPartition, IsARuleOfTheSpace) {
  const Model model = plan_test::decoder({});
  Strategy s;
  s.tp = 4;
  s.partition = BlockPartition("a K; b R,R");
  const auto broken = violations(model, plan_test::cluster(1, 4), plan_test::training(64, 8), s,
                                 {ScheduleKind::one_f_one_b, 1, 1, 8, 1}, SplitPolicy::balanced);
  ASSERT_EQ(broken.size(), 1U);
  EXPECT_EQ(broken.front().rule, "operator-partition");
  EXPECT_EQ(broken.front().text, "a K cuts by 1 bits, tp 4 has 2");
}

Plan partitioned() {
  Strategy s;
  s.tp = 4;
  s.partition = BlockPartition("attn.qkv K,K; mlp.up P2");
  return make_uniform_plan(plan_test::decoder({}), plan_test::cluster(1, 4), plan_test::training(64, 8), "generic", s,
                           {ScheduleKind::one_f_one_b, 1, 1, 8, 1}, SplitPolicy::balanced);
}

TEST(OperatorPartition, IsAnObjectInThePlanAndReadBack) {
  const Plan plan = partitioned();
  const std::string text = to_json(plan);
  EXPECT_NE(text.find(R"("partition": {"attn.qkv": "K,K", "mlp.up": "P2"})"), std::string::npos) << text;
  const auto back = plan_from_json(text, "plan.json");
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(*back, plan);
  EXPECT_NE(plan.canonical_text().find("attn.qkv K,K; mlp.up P2"), std::string::npos);
}

TEST(OperatorPartition, TextIsReadAsWellAndFaultsAreNamed) {
  const std::string text = to_json(partitioned()), object = R"({"attn.qkv": "K,K", "mlp.up": "P2"})";
  const auto with = [&](const std::string& other) {
    std::string changed = text;
    return plan_from_json(changed.replace(text.find(object), object.size(), other), "plan.json");
  };
  const auto written = with(R"("attn.qkv K,K; mlp.up P2")");
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(*written, partitioned());
  for (const char* wrong : {R"({"attn.qkv": "K,X"})", R"({"attn.qkv": 3})", "{}", "[1]", R"("attn.qkv")", R"({"a b": "K"})"})
    EXPECT_FALSE(with(wrong).ok()) << wrong;
  EXPECT_TRUE(with("null")->strategy().partition.empty());
}

}  // namespace
}  // namespace espalier::plan_test::operator_partition_test
