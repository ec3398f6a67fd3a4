// SPDX-License-Identifier: Apache-2.0
// Buffers of DeepSpeed's ZeRO by hand, for the decoder of data/own/parts_h100_2026-11-28.jsonl ("1b", rank of 8): the
// sizes of blocks that were live at its peaks stand next to them.
#include "cost/zero_buffers.h"

#include <gtest/gtest.h>

#include "plan/engine.h"

namespace espalier::cost::zero_buffers_test {
namespace {

constexpr std::int64_t kElements = 1498482688, kShard = kElements / 8, kTable = 128256 * 2048;

Strategy over_8(std::int32_t zero, bool overlap = false) {
  Strategy s;
  s.dp = 8;
  s.zero = ZeroStage{zero};
  s.shard = zero == 0 ? 1 : 8;
  s.overlap.grad_reduce = overlap;
  return s;
}

LargestLayers largest() { return {2 * kTable, 2 * kTable, kTable}; }

ZeroBuffers of(const char* engine, const Strategy& s) {
  Training training;
  training.precision = Precision::bf16;
  const EngineModel& e = *find_engine(engine);
  return zero_buffers(e.memory.zero, states_of(e, training), s, {kElements, 0}, largest());
}

// Without ZeRO a bucket of 5e8 gradients is flattened (2 bytes), and all gradients are copied to fp32.
TEST(ZeroBuffers, WithoutZero) {
  const ZeroBuffers b = of("deepspeed", over_8(0));
  EXPECT_EQ(b.gathered, 0);
  EXPECT_EQ(b.reduced, 1000000000);
  EXPECT_EQ(b.held, 4 * kElements);
}

// The shard is a part of the embedding's table, whose gradient is cast to fp64: 8 bytes are more than the 2 + 4 of the
// update's copies. Measured: get_grad_norm_direct 1498482688.
TEST(ZeroBuffers, StageTwoHoldsABucketItsCopyAndTheNorm) {
  const ZeroBuffers b = of("deepspeed", over_8(2));
  EXPECT_EQ(b.reduced, 1000000000 + 1000000000);  // measured: setup_buckets 1000000000, allreduce_bucket 999325696
  EXPECT_EQ(b.held, 8 * kShard);
  EXPECT_EQ(b.held, 1498482688);
  EXPECT_EQ(of("deepspeed", over_8(2, true)).reduced, 3 * 1000000000LL);  // overlap_comm: two buckets
  EXPECT_EQ(of("deepspeed", over_8(1)).reduced, 1000000000);
}

// A small bucket is no limit for the gradient of a table, which is copied whole.
TEST(ZeroBuffers, SizesOfTheFile) {
  EXPECT_EQ(of("deepspeed+reduce-bucket=4194304", over_8(2)).reduced, 2 * 4194304 + 2 * kTable);
  EXPECT_EQ(of("deepspeed+sub-group=100000000", over_8(3)).held, 6 * 100000000);
  EXPECT_EQ(of("deepspeed+live-parameters=1400000000", over_8(3)).gathered, 2 * 1400000000LL);
  EXPECT_EQ(of("deepspeed+live-parameters=2000000000", over_8(3)).gathered, 2 * kElements);
  // Nothing is kept: the table in use remains.
  EXPECT_EQ(of("deepspeed+live-parameters=0+reuse-distance=0", over_8(3)).gathered, 2 * kTable);
  EXPECT_EQ(of("deepspeed+live-parameters=0+reuse-distance=1200000000", over_8(3)).gathered, 2 * 600000000);
}

// Measured: 2.02e9 bytes gathered at the begin of the backward pass, one bucket, _prepare_fp32_grad_for_sub_group
// 1123862016 in two blocks.
TEST(ZeroBuffers, StageThreeKeepsGatheredParameters) {
  const ZeroBuffers b = of("deepspeed", over_8(3));
  EXPECT_EQ(b.gathered, 2000000000);
  EXPECT_EQ(b.reduced, 2000000000);
  EXPECT_EQ(b.held, 1123862016);
  EXPECT_EQ(b.total(), 5123862016);
}

// Measured: fp32 gradients of all parameters, 16-bit ones, and all of them cast to 16 bits (allreduce_bucket
// 2996965376).
TEST(ZeroBuffers, SumsInFp32) {
  const ZeroBuffers one = of("deepspeed+fp32-gradients", over_8(1));
  EXPECT_EQ(one.reduced, 4 * kElements);
  EXPECT_EQ(one.held, 0);
  EXPECT_EQ(of("deepspeed+fp32-gradients", over_8(2)).held, 8 * kShard);
  EXPECT_EQ(of("deepspeed+fp32-gradients", over_8(3)).held, 4 * kShard);
  Training training;
  const EngineModel& e = *find_engine("deepspeed+fp32-gradients");
  const StaticMemory states = state_memory({kElements, 0}, states_of(e, training), over_8(1));
  EXPECT_EQ(states.gradients, 4 * kElements);  // unsharded
}

// An engine that states nothing holds two gathered layers and one gradient; the optimizer on hosts copies nothing here.
TEST(ZeroBuffers, OfOtherEnginesAndHosts) {
  const ZeroBuffers b = of("generic", over_8(3));
  EXPECT_EQ(b.gathered, 2 * 2 * kTable);
  EXPECT_EQ(b.reduced, 2 * kTable);
  EXPECT_EQ(b.held, 0);
  Strategy s = over_8(2);
  s.offload = Offload::optimizer;
  EXPECT_EQ(of("deepspeed", s).held, 0);
}

// A layer never needs more than its stage has.
TEST(ZeroBuffers, OfALayerAreALowerBound) {
  const EngineModel& e = *find_engine("deepspeed");
  const StatePolicy states = states_of(e, Training{});
  for (std::int32_t zero = 0; zero <= 3; ++zero)
    for (const std::int64_t n : {std::int64_t{1000}, kTable})
      EXPECT_LE(least_zero_buffers(e.memory.zero, states, over_8(zero), {n, 0}), of("deepspeed", over_8(zero)).total());
}

}  // namespace
}  // namespace espalier::cost::zero_buffers_test
