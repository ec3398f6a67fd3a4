// SPDX-License-Identifier: Apache-2.0
#include "cost/queued_outputs.h"

#include <gtest/gtest.h>

#include "cost/test_problem.h"

namespace espalier::cost {
namespace {

using namespace test;

Schedule schedule_of(ScheduleKind kind, std::int32_t stages, std::int32_t microbatches) {
  Schedule s;
  s.kind = kind;
  s.stages = stages;
  s.microbatches = microbatches;
  return s;
}

// 10 tokens, two row linears with outputs of 64 and 32: whole, 2 bytes each; the output of a column linear stays
// divided.
TEST(QueuedOutputs, RowLinearsUnderSequenceParallelism) {
  LayerKind kind = block(
      {linear("qkv", 64, 192, TpSplit::column), linear("out", 64, 64, TpSplit::row), linear("down", 256, 32, TpSplit::row)}, 64);
  LayerGeometry g;
  g.tokens = 10;
  g.split = g.sequence_split = g.weight_split = 4;
  EXPECT_EQ(scattered_outputs(kind, g), 2 * 10 * (64 + 32));
  g.sequence_split = 1;  // all-reduced in place
  EXPECT_EQ(scattered_outputs(kind, g), 0);
}

TEST(QueuedOutputs, PassesThatTheHostMayHaveQueued) {
  EXPECT_EQ(queued_passes(schedule_of(ScheduleKind::one_f_one_b, 1, 1), 0), 1);
  EXPECT_EQ(queued_passes(schedule_of(ScheduleKind::one_f_one_b, 1, 8), 0), 2);
  EXPECT_EQ(queued_passes(schedule_of(ScheduleKind::one_f_one_b, 2, 8), 0), 0);
  EXPECT_EQ(queued_passes(schedule_of(ScheduleKind::one_f_one_b, 8, 16), 0), 6);
  EXPECT_EQ(queued_passes(schedule_of(ScheduleKind::one_f_one_b, 8, 16), 5), 1);
  EXPECT_EQ(queued_passes(schedule_of(ScheduleKind::one_f_one_b, 8, 16), 7), 0);
  EXPECT_EQ(queued_passes(schedule_of(ScheduleKind::one_f_one_b, 8, 4), 0), 2);
  EXPECT_EQ(queued_passes(schedule_of(ScheduleKind::gpipe, 4, 16), 0), 14);
}

// 16 blocks of 100 bytes: two passes are 32 blocks, of which the queue takes 29; one pass of 16 fits. Without blocks
// there is nothing.
TEST(QueuedOutputs, AsManyBlocksAsTheQueueTakes) {
  EXPECT_EQ(queued_bytes(1600, 16, 2, 29), 2900);
  EXPECT_EQ(queued_bytes(1600, 16, 1, 29), 1600);
  EXPECT_EQ(queued_bytes(1600, 16, 0, 29), 0);
  EXPECT_EQ(queued_bytes(0, 0, 2, 29), 0);
}

}  // namespace
}  // namespace espalier::cost
