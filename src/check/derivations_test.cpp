// SPDX-License-Identifier: Apache-2.0
// Tests static memory, messages and the time bound of small models against results derived by hand.
#include <gtest/gtest.h>

#include "base/invariant.h"
#include "check/test_problem.h"
#include "plan/engine.h"

namespace espalier::check::derivations_test {
namespace {

using namespace test;

/// Counts the elements of a block of hidden 64, feed-forward 256 with biases:
/// 2·128 norms + qkv 64·192 + 192 + out 64·64 + 64 + up 64·256 + 256 + down 256·64 + 64.
constexpr std::int64_t kBlock = 256 + 12480 + 4160 + 16640 + 16448;
constexpr std::int64_t kTable = 1000 * 64, kPositions = 128 * 64, kHeadNorm = 128;

View view_of(const Case& c) { return make_view(c.plan, c.model, c.cluster); }

TEST(StaticMemory, OneDeviceHoldsEighteenBytesAParameter) {
  // bf16: 2 parameter + 4 gradient + 4 master + 8 Adam moments; the tied table counts once.
  const Case c = make_case(model_of(gpt(2)), {}, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1));
  EXPECT_EQ(static_bytes_per_stage(view_of(c)), (std::vector<std::int64_t>{18 * (2 * kBlock + kTable + kPositions + kHeadNorm)}));
}

TEST(StaticMemory, TensorParallelSplitsWeightsAndKeepsRowBiasesAndNorms) {
  // tp 4: block = norms 256 + qkv 12480/4 + (out 4096/4 + 64) + up 16640/4 + (down 16384/4 + 64); table 250 rows;
  // positions whole
  Strategy s;
  s.tp = 4;
  const Case c = make_case(model_of(gpt(1)), s, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1));
  const std::int64_t block = 256 + 3120 + 1024 + 64 + 4160 + 4096 + 64;
  EXPECT_EQ(static_bytes_per_stage(view_of(c)).front(), 18 * (block + 250 * 64 + kPositions + kHeadNorm));
}

TEST(StaticMemory, ZeroShardsOptimizerThenGradientsThenParameters) {
  for (std::int32_t zero = 1; zero <= 3; ++zero) {
    Strategy s;
    s.dp = 4;
    s.zero = ZeroStage{zero};
    s.shard = 4;
    const Case c = make_case(model_of(gpt(2)), s, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1));
    const std::int64_t all = 2 * kBlock + kTable + kPositions + kHeadNorm, part = all / 4;
    ASSERT_EQ(all % 4, 0);
    const std::int64_t parameters = zero == 3 ? part : all, gradients = zero >= 2 ? part : all;
    EXPECT_EQ(static_bytes_per_stage(view_of(c)).front(), 2 * parameters + 4 * gradients + 12 * part) << "ZeRO " << zero;
  }
}

// a elements take 2a + 4a + 12·a/4 bytes. If half of the gradients are whole and all have their shards, they take 2a
// + 4·(a/4 + a/2) + 12·a/4, a ninth less.
TEST(StaticMemory, ReducedGradientsAreFreedWherePassesOfAChunkFollowEachOther) {
  Strategy s;
  s.dp = 4;
  s.zero = ZeroStage::optimizer;
  s.shard = 4;
  for (const std::int32_t microbatches : {2, 4}) {
    const Case c = make_case(model_of(gpt(4)), s, schedule_of(ScheduleKind::interleaved, 2, 2, microbatches));
    const View kept = view_of(c);
    View freed = kept;
    freed.engine.memory.states.frees_reduced = true;
    const std::int64_t whole = static_bytes_per_stage(kept)[1];
    ASSERT_EQ(whole % 9, 0);
    EXPECT_EQ(static_bytes_per_stage(freed)[1], microbatches == 2 ? whole - whole / 9 : whole);
  }
}

TEST(StaticMemory, ATiedModelKeepsASecondTableOnItsLastStage) {
  const Case c = make_case(model_of(gpt(2)), {}, schedule_of(ScheduleKind::one_f_one_b, 2, 1, 2));
  const auto bytes = static_bytes_per_stage(view_of(c));
  EXPECT_EQ(bytes[0] + bytes[1], 18 * (2 * kBlock + 2 * kTable + kPositions + kHeadNorm));
  // zb-v holds embedding and head on stage 0, hence one table.
  const Case v = make_case(model_of(gpt(2)), {}, schedule_of(ScheduleKind::zb_v, 2, 2, 4));
  const auto folded = static_bytes_per_stage(view_of(v));
  EXPECT_EQ(folded[0] + folded[1], 18 * (2 * kBlock + kTable + kPositions + kHeadNorm));
}

TEST(StaticMemory, VocabularyIsPaddedAsTheEngineDoes) {
  // megatron-core: 128 · tp 2 = 256: 1000 rows become 1024, 512 on each rank.
  Strategy s;
  s.tp = 2;
  const Case c = make_case(model_of(gpt(1)), s, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1), "megatron-core");
  const std::int64_t block = 256 + 6240 + 2048 + 64 + 8320 + 8192 + 64;
  EXPECT_EQ(static_bytes_per_stage(view_of(c)).front(), 18 * (block + 512 * 64 + kPositions + kHeadNorm));
}

TEST(StaticMemory, ExpertsAreSplitOverEpAndShardedOverTheirReplicas) {
  // There are 8 experts of up 64·256 + 256 and down 256·64 + 64 each. With dp 4, ep 2, a rank holds 4 experts in 2
  // replicas. ZeRO 1 over 4 shards them over gcd(4, 2) = 2.
  DecoderShape shape = gpt(1);
  shape.experts = 8;
  shape.top_k = 2;
  Strategy s;
  s.dp = 4;
  s.ep = 2;
  s.zero = ZeroStage::optimizer;
  s.shard = 4;
  const Case c = make_case(model_of(shape), s, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1));
  const std::int64_t expert = 4 * (16640 + 16448);
  const std::int64_t dense = 256 + 12480 + 4160 + 64 * 8 + kTable + kPositions + kHeadNorm;
  EXPECT_EQ(static_bytes_per_stage(view_of(c)).front(), 6 * (dense + expert) + 12 * (dense / 4 + expert / 2));
  EXPECT_EQ(gradient_bytes_per_stage(view_of(c)).front(), 4 * (dense + expert));
}

TEST(StaticMemory, Fp32AndSgd) {
  Case c = make_case(model_of(gpt(1)), {}, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1));
  c.plan.training.precision = Precision::fp32;
  c.plan.training.optimizer = Optimizer::sgd;
  EXPECT_EQ(static_bytes_per_stage(view_of(c)).front(), 12 * (kBlock + kTable + kPositions + kHeadNorm));
}

// Derivations rely on a sound structure. A layer that no chunk holds and samples that no replica gets are errors of
// the caller.
TEST(View, OnlyOfAPlanWhoseLayersFollowEachOther) {
  Case c = make_case(model_of(gpt(4)), {}, schedule_of(ScheduleKind::one_f_one_b, 2, 1, 2));
  const View view = view_of(c);
  EXPECT_EQ(view.chunks[1].first(), view.chunks[0].last() + 1);
  Strategy three = view.strategy;
  three.dp = 3;
  EXPECT_THROW((void)view_of(view, three), base::InternalError);
  EXPECT_THROW((void)peak_bytes_per_stage(view, c.program, {1}, saved_bytes_per_chunk(view)), base::InternalError);
  c.plan.only_pipeline().stages[1].chunks[0].ranges[0].first += 1;
  EXPECT_THROW((void)view_of(c), base::InternalError);
}

TEST(GradientMessages, NothingIsReducedOverOneRank) {
  const Case one = make_case(model_of(gpt(1)), {}, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1));
  EXPECT_EQ(gradient_bytes_per_stage(view_of(one)).front(), 0);
  Strategy s;
  s.dp = 2;
  const Case two = make_case(model_of(gpt(1)), s, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1));
  EXPECT_EQ(gradient_bytes_per_stage(view_of(two)).front(), 4 * (kBlock + kTable + kPositions + kHeadNorm));
}

TEST(BoundaryMessages, HiddenTimesTokensDividedByContextAndSequenceParallelism) {
  // 128 tokens · 64 features · 2 bytes = 16384 for a sample; two samples, cp 2, sp over tp 2: 8192.
  Strategy s;
  s.tp = 2;
  s.cp = 2;
  Schedule schedule = schedule_of(ScheduleKind::one_f_one_b, 2, 1, 2);
  schedule.micro_batch = 2;
  EXPECT_EQ(boundary_bytes_per_chunk(view_of(make_case(model_of(gpt(2)), s, schedule))), (std::vector<std::int64_t>{0, 16384}));
  s.sp = SequenceParallel::megatron;
  EXPECT_EQ(boundary_bytes_per_chunk(view_of(make_case(model_of(gpt(2)), s, schedule))), (std::vector<std::int64_t>{0, 8192}));
}

TEST(BoundaryMessages, NoneBetweenChunksOfOneStage) {
  const Case c = make_case(model_of(gpt(2)), {}, schedule_of(ScheduleKind::zb_v, 2, 2, 4));
  EXPECT_EQ(boundary_bytes_per_chunk(view_of(c)), (std::vector<std::int64_t>{0, 16384, 0, 16384}));
}

}  // namespace
}  // namespace espalier::check::derivations_test
