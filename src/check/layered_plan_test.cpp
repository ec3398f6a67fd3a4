// SPDX-License-Identifier: Apache-2.0
// Tests a plan with a strategy per layer against results derived by hand.
#include <gtest/gtest.h>

#include "check/engine_layers.h"
#include "check/test_problem.h"

namespace espalier::check {
namespace {

using namespace test;

// A block has 4·64² + 2·64·256 weights, 9·64 + 256 biases and norms. Each rank of two holds half of what tp splits
// (not the norms and the biases after row linears: 6·64). The head reads the embedding's table. An element takes 18
// bytes.
TEST(LayeredPlans, SmallestExample) {
  Strategy data, tensor;
  data.dp = 2;
  tensor.tp = 2;
  tensor.sp = SequenceParallel::megatron;
  const Case c = make_layered_case(model_of(gpt(2)), {{{0, 0, data}, {1, 2, tensor}, {3, 3, data}}},
                                   schedule_of(ScheduleKind::one_f_one_b, 1, 1, 2));
  EXPECT_TRUE(c.check().ok()) << broken(c.check());
  const View view = make_view(c.plan, c.model, c.cluster);
  const std::int64_t split = 4 * 64 * 64 + 2 * 64 * 256 + 3 * 64 + 256, whole = 6 * 64;
  const std::int64_t embedding = 1000 * 64 + 128 * 64, head = 2 * 64;
  EXPECT_EQ(elements_per_stage(view)[0].dense, 2 * (split / 2 + whole) + embedding + head);
  EXPECT_EQ(static_bytes_per_stage(view)[0], 18 * (2 * (split / 2 + whole) + embedding + head));
  EXPECT_EQ(view_of(view, tensor).micro_batch, 2);
}

// Engines allow different mixes of these strategies. FSDP's fully_shard mixes ZeRO 2 with ZeRO 3 and recomputes by
// block. Its tensor groups apply to the whole plan, and so does the choice between ZeRO 0 (its DDP) and ZeRO 3.
// Galvatron's file has all of that, but the head must equal the embedding.
TEST(LayeredPlans, EnginesSayInWhatLayersMayDiffer) {
  const auto finding = [](const char* engine, const Strategy& blocks, const Strategy& ends, const Strategy& head) {
    Case c = make_layered_case(model_of(gpt(2)), {{{0, 0, ends}, {1, 2, blocks}, {3, 3, head}}},
                               schedule_of(ScheduleKind::one_f_one_b, 1, 1, 2));
    c.plan.engine = engine;
    View view = make_view(c.plan, c.model, c.cluster);
    return check_engine_layers(view);
  };
  Strategy zero0, zero2, zero3, again, tensor;
  zero0.dp = zero2.dp = zero3.dp = again.dp = 2;
  zero2.zero = ZeroStage::gradients;
  zero3.zero = ZeroStage::parameters;
  again.zero = ZeroStage::parameters;
  zero2.shard = zero3.shard = again.shard = 2;
  again.recompute = {RecomputeKind::full, 1};  // one of the two blocks
  tensor.tp = 2;
  tensor.sp = SequenceParallel::megatron;
  for (const char* engine : {"generic", "espalier"}) EXPECT_TRUE(finding(engine, tensor, zero0, zero0).ok) << engine;
  EXPECT_TRUE(finding("fsdp2", zero3, zero2, zero2).ok);
  EXPECT_TRUE(finding("fsdp2", again, zero2, zero2).ok);
  EXPECT_FALSE(finding("fsdp2", zero3, zero0, zero0).ok);   // DDP and fully_shard
  EXPECT_FALSE(finding("fsdp2", tensor, zero0, zero0).ok);  // tensor groups
  EXPECT_FALSE(finding("fsdp1", zero3, zero2, zero2).ok);
  EXPECT_TRUE(finding("fsdp1", again, zero3, zero3).ok);
  EXPECT_FALSE(finding("torchtitan", again, zero3, zero3).ok);  // one mode of recomputation
  EXPECT_FALSE(finding("megatron-core", tensor, zero0, zero0).ok);
  EXPECT_TRUE(finding("galvatron", tensor, zero0, zero0).ok);
  EXPECT_FALSE(finding("galvatron", tensor, zero0, zero3).ok);  // head differs from embedding
  EXPECT_TRUE(finding("galvatron", again, zero0, zero0).ok);
  EXPECT_FALSE(finding("galvatron", zero2, zero0, zero0).ok);  // two other types than ZeRO 3
}

}  // namespace
}  // namespace espalier::check
