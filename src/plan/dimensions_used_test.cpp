// SPDX-License-Identifier: Apache-2.0
#include "plan/dimensions_used.h"

#include <gtest/gtest.h>

namespace espalier {
namespace {

// Data parallelism, micro-batch and overlap are free; each of the others counts one.
TEST(DimensionsUsed, SmallestExample) {
  Strategy s;
  Schedule c;
  EXPECT_EQ(dimensions_used(s, c), 0);
  s.dp = 8;
  s.overlap.grad_reduce = true;
  c.micro_batch = 4;
  EXPECT_EQ(dimensions_used(s, c), 0);
  s.zero = ZeroStage::optimizer;
  s.shard = 8;
  EXPECT_EQ(dimensions_used(s, c), 1);  // ZeRO over all data ranks
  s.shard = 4;
  EXPECT_EQ(dimensions_used(s, c), 2);  // plus hybrid sharding
  s.tp = 2;
  s.sp = SequenceParallel::megatron;
  EXPECT_EQ(dimensions_used(s, c), 4);
  c.stages = 2;
  EXPECT_EQ(dimensions_used(s, c), 5);  // 1F1B is the plain schedule
  c.kind = ScheduleKind::interleaved;
  c.virtual_stages = 3;
  EXPECT_EQ(dimensions_used(s, c), 7);
  s.recompute = {RecomputeKind::full, 2};
  EXPECT_EQ(dimensions_used(s, c), 8);
}

/// Returns two stages of two layers each.
Plan two_stages(const Strategy& first, const Strategy& second) {
  Plan plan;
  plan.only_pipeline().schedule.stages = 2;
  plan.only_pipeline().stages = {{{{0, 2, 1}}, {Chunk{{{0, 1, first}}}}}, {{{2, 2, 1}}, {Chunk{{{2, 3, second}}}}}};
  return plan;
}

// A dimension counts once if any layer uses it, and mixing strategies counts one: pp, tp, zero and the mix.
TEST(DimensionsUsed, OfAMixedPlan) {
  Strategy tensor, sharded;
  tensor.tp = 2;
  sharded.dp = 2;
  sharded.zero = ZeroStage::optimizer;
  sharded.shard = 2;
  EXPECT_EQ(dimensions_used(two_stages(tensor, tensor)), 2);
  EXPECT_EQ(dimensions_used(two_stages(tensor, sharded)), 4);
}

}  // namespace
}  // namespace espalier
