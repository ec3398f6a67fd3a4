// SPDX-License-Identifier: Apache-2.0
#include "check/saved_activations.h"

#include <gtest/gtest.h>

#include "check/test_problem.h"
#include "check/transients.h"
#include "plan/engine.h"

namespace espalier::check {
namespace {

using namespace test;

/// Holds a view of one GPT-like model under a strategy, as far as memory needs one.
struct Problem {
  Model model;
  Cluster cluster = cluster_of(1);
  Plan plan;
  View view;

  Problem(const DecoderShape& shape, const Strategy& strategy, ActivationPolicy policy, std::int64_t sequence, std::int32_t batch)
      : model(model_of(shape)) {
    plan.training.sequence.main = sequence;
    plan.only_pipeline().schedule.micro_batch = batch;
    view.plan = &plan;
    view.pipeline = &plan.only_pipeline();
    view.model = &model;
    view.cluster = &cluster;
    view.engine.memory.activations = policy;
    view.strategy = strategy;
    view.micro_batch = batch;
    view.samples = std::int64_t{batch} * strategy.dp;
    view.chunks = {{{{0, static_cast<std::int32_t>(model.layers.size()) - 1, strategy}}}};
    view.stage_of = {0};
  }
  [[nodiscard]] std::int64_t block(RecomputeKind recompute) const {
    return saved_bytes_of_layer(view, model.layer(1), recompute);
  }
};

Strategy tensor_parallel(std::int32_t t, SequenceParallel sp) {
  Strategy s;
  s.tp = t;
  s.sp = sp;
  return s;
}

TEST(SavedActivations, OneTokenOfATinyBlockByHand) {
  // The model is fused: hidden 64, 4 heads of 16, feed-forward 256, dropout; one sequence of one token, a = 2.
  //   attn.norm 2·64 + 4 = 132; qkv reads its output 128; core q, k, v, out 2·4·64 + log-sum-exp 4·4 = 528; out: 0
  //   attn.dropout 64; mlp.norm 132; up 128; GELU 2·256 = 512; down 512; mlp.dropout 64                    sum 2200
  const Problem p(gpt(1), {}, ActivationPolicy::fused_attention, 1, 1);
  EXPECT_EQ(p.block(RecomputeKind::none), 2200);
  // selective drops qkv's and up's inputs (norm outputs) and down's (the activation's output): 2200 − 128 − 128 − 512
  EXPECT_EQ(p.block(RecomputeKind::selective), 1432);
  EXPECT_EQ(p.block(RecomputeKind::full), 128);
}

// There are two blocks and 256 tokens over 4 ranks with sequence parallelism. The row linears of a block output
// 2·256·(64 + 64) bytes before they are scattered. With eight micro-batches, two passes (four blocks) can wait, or
// three blocks if the host runs only three ahead. With one micro-batch two blocks wait.
TEST(Transients, OutputsThatWaitForTheirCollectives) {
  Problem p(gpt(2), tensor_parallel(4, SequenceParallel::megatron), ActivationPolicy::fused_attention, 256, 1);
  p.view.stages = 1;
  p.view.microbatches = 8;
  const std::int64_t without = buffer_bytes_per_stage(p.view).front(), block = 2 * 256 * (64 + 64);
  p.view.engine.eager.queued_blocks = 29;
  EXPECT_EQ(buffer_bytes_per_stage(p.view).front(), without + 4 * block);
  p.view.engine.eager.queued_blocks = 3;
  EXPECT_EQ(buffer_bytes_per_stage(p.view).front(), without + 3 * block);
  p.view.microbatches = 1;
  EXPECT_EQ(buffer_bytes_per_stage(p.view).front(), without + 2 * block);
}

// The first of four stages has four of eight micro-batches in flight, the third two. GPipe holds all eight. Each
// stage has two blocks.
TEST(Transients, OutputsThatWaitUnderAPipeline) {
  Problem p(gpt(2), tensor_parallel(4, SequenceParallel::megatron), ActivationPolicy::fused_attention, 256, 1);
  p.view.stages = p.plan.only_pipeline().schedule.stages = 4;
  p.view.microbatches = p.plan.only_pipeline().schedule.microbatches = 8;
  p.view.engine.eager.queued_blocks = 29;
  const auto of_first = [&](std::int32_t stage) {
    p.view.stage_of = {stage};
    p.view.engine.eager.queued_blocks = 0;
    const std::int64_t without = buffer_bytes_per_stage(p.view)[static_cast<std::size_t>(stage)];
    p.view.engine.eager.queued_blocks = 29;
    return buffer_bytes_per_stage(p.view)[static_cast<std::size_t>(stage)] - without;
  };
  const std::int64_t block = 2 * 256 * (64 + 64);
  EXPECT_EQ(of_first(0), 2 * 2 * block);
  EXPECT_EQ(of_first(1), 1 * 2 * block);
  EXPECT_EQ(of_first(2), 0);
  p.plan.only_pipeline().schedule.kind = ScheduleKind::gpipe;
  EXPECT_EQ(of_first(2), 6 * 2 * block);
}

// A gated MLP is recomputed per operator: half of the activation's input is made again, and so is the activated gate.
TEST(SavedActivations, EverySecondProductRunsAgain) {
  DecoderShape shape = gpt(1);
  shape.gated = true;
  Problem p(shape, {}, ActivationPolicy::fused_attention, 1, 1);
  p.view.engine.memory.eager_gate = true;
  const std::int64_t none = p.block(RecomputeKind::none), kept = p.block(RecomputeKind::selective);
  p.view.engine.memory.selective.add(RecomputeModule::every_second_mm);
  EXPECT_EQ(p.block(RecomputeKind::none), none);
  EXPECT_EQ(p.block(RecomputeKind::selective), kept - 2 * 256);
}

// For one token and hidden 64, queries and keys are 2·64 bytes each, kept once more.
TEST(SavedActivations, RotatedCopies) {
  Problem p(gpt(1), {}, ActivationPolicy::fused_attention, 1, 1);
  const std::int64_t once = p.block(RecomputeKind::none);
  p.view.engine.eager.copies_rotated = true;
  EXPECT_EQ(p.block(RecomputeKind::none), once + 2 * 2 * 64);
}

TEST(SavedActivations, KorthikantiTable2) {
  // Korthikanti et al. 2022, table 2, for sequences s, micro-batch b, hidden h, heads a, tp t; exact integers here.
  const std::int64_t s = 128, b = 3, h = 64, a = 4;
  const std::int32_t t = 4;
  const auto sbh = s * b * h, scores = 5 * a * s * s * b;
  const auto with = [&](const Strategy& strategy, RecomputeKind recompute) {
    Problem p(gpt(1), strategy, ActivationPolicy::megatron_2022_unfused, s, static_cast<std::int32_t>(b));
    p.view.engine.memory.selective = {RecomputeModule::core_attn};
    return p.block(recompute);
  };
  const Strategy tp = tensor_parallel(t, SequenceParallel::none), sp = tensor_parallel(t, SequenceParallel::megatron);
  EXPECT_EQ(with({}, RecomputeKind::none), 34 * sbh + scores);
  EXPECT_EQ(with(tp, RecomputeKind::none), 10 * sbh + (24 * sbh + scores) / t);
  EXPECT_EQ(with(sp, RecomputeKind::none), (34 * sbh + scores) / t);
  EXPECT_EQ(with(tp, RecomputeKind::selective), 10 * sbh + 24 * sbh / t);
  EXPECT_EQ(with(sp, RecomputeKind::selective), 34 * sbh / t);
  EXPECT_EQ(with(tp, RecomputeKind::full), 2 * sbh);
  EXPECT_EQ(with(sp, RecomputeKind::full), 2 * sbh);
}

TEST(SavedActivations, UlyssesKeepsAsMuchAsMegatronSequenceParallelism) {
  for (const ActivationPolicy policy : {ActivationPolicy::megatron_2022_unfused, ActivationPolicy::fused_attention}) {
    const Problem megatron(gpt(1), tensor_parallel(4, SequenceParallel::megatron), policy, 128, 1);
    const Problem ulysses(gpt(1), tensor_parallel(4, SequenceParallel::ulysses), policy, 128, 1);
    EXPECT_EQ(megatron.block(RecomputeKind::none), ulysses.block(RecomputeKind::none));
  }
}

TEST(SavedActivations, GroupedQueriesAndGatedMlpByHand) {
  // The model is fused and llama-like: hidden 64, 4 heads and 2 key/value heads of 16, gated feed-forward 100, no
  // dropout, one token:
  //   2 norms 2·132; qkv 128; core 2·(64 + 32 + 32 + 64) + 16 = 400; gate_up 128; activation 2·200; down 2·100
  //   sum 1520
  DecoderShape shape = gpt(1);
  shape.kv_heads = 2;
  shape.ffn = 100;
  shape.gated = shape.rms_norm = shape.rotary = true;
  shape.biases = shape.dropout = shape.learned_positions = false;
  const Problem p(shape, {}, ActivationPolicy::fused_attention, 1, 1);
  EXPECT_EQ(p.block(RecomputeKind::none), 264 + 128 + 400 + 128 + 400 + 200);
}

TEST(SavedActivations, ExpertsByHand) {
  // The model is fused: hidden 64, expert feed-forward 256 (GELU), 8 experts, top 2, no dropout. For one token, ep 2
  // and imbalance 1.5 there are 3 copies.
  //   2 norms 264; qkv 128; core 528; router 4·8 + its input 128; up 3·128 = 384; activation 3·512; down 3·512;
  //   combine 2·128 = 256
  // With ep 1 a rank holds all experts and gets exactly its 2 copies, whatever the imbalance.
  DecoderShape shape = gpt(1);
  shape.experts = 8;
  shape.top_k = 2;
  shape.dropout = false;
  Strategy s;
  s.dp = 2;
  s.ep = 2;
  Problem two(shape, s, ActivationPolicy::fused_attention, 1, 1);
  two.plan.training.moe_imbalance = 1.5;
  EXPECT_EQ(two.block(RecomputeKind::none), 264 + 128 + 528 + 160 + 384 + 3 * 512 + 3 * 512 + 256);
  Problem one(shape, {}, ActivationPolicy::fused_attention, 1, 1);
  one.plan.training.moe_imbalance = 1.5;
  EXPECT_EQ(one.block(RecomputeKind::none), 264 + 128 + 528 + 160 + 256 + 2 * 512 + 2 * 512 + 256);
}

TEST(SavedActivations, HeadKeepsPaddedLogits) {
  // The head keeps: norm 132, logits read 128; fp32 softmax 4 · 1024 (1000 padded to a multiple of 128), one token.
  Problem p(gpt(1), {}, ActivationPolicy::fused_attention, 1, 1);
  p.view.engine.memory.vocabulary_multiple = 128;
  EXPECT_EQ(saved_bytes_of_layer(p.view, p.model.layer(2), RecomputeKind::full), 132 + 128 + 4 * 1024);
}

TEST(SavedActivations, FullRecomputationCountsBlocksOfEachChunk) {
  // 4 blocks in one chunk, 3 recomputed: embedding + 3 · input + 1 whole block + head.
  Strategy s;
  s.recompute = {RecomputeKind::full, 3};
  const Problem p(gpt(4), s, ActivationPolicy::fused_attention, 1, 1);
  const std::int64_t embedding = 64;  // dropout mask
  EXPECT_EQ(saved_bytes_per_chunk(p.view).front(), embedding + 3 * 128 + 2200 + 132 + 128 + 4 * 1000);
}

}  // namespace
}  // namespace espalier::check
