// SPDX-License-Identifier: Apache-2.0
// Time of one layer, worked out by hand on a device with round numbers (test_problem.h). 1000 FLOP or 1000 bytes of
// memory take a nanosecond, as does a byte on a link.
#include "cost/layer_cost.h"

#include <gtest/gtest.h>

#include "cost/test_problem.h"
#include "plan/engine.h"

namespace espalier::cost::layer_cost_test {
namespace {

using namespace test;

constexpr std::int64_t kGemm = 32768;  // ns: 2 · 1000 tokens · 64 · 256 FLOP
// Gather or scatter of two ranks in ns: half of 1000 tokens · 64 features · 2 bytes, on a link.
constexpr std::int64_t kBoundary = 64000;

Strategy tp(std::int32_t degree, SequenceParallel sp = SequenceParallel::none) {
  Strategy s;
  s.tp = degree;
  s.sp = sp;
  return s;
}

// Forward has two GEMMs of 32,768 ns; backward each has an input and a weight gradient.
TEST(LayerCost, SmallestExample) {
  const LayerCost c = cost_of(mlp(), {}, round_cluster(1));
  EXPECT_EQ(c.forward, (PhaseTime{2 * kGemm, 0, 0, 0}));
  EXPECT_EQ(c.backward, (PhaseTime{4 * kGemm, 0, 0, 0}));
  EXPECT_EQ(c.backward_input, (PhaseTime{2 * kGemm, 0, 0, 0}));
  EXPECT_EQ(c.backward_weight, (PhaseTime{2 * kGemm, 0, 0, 0}));
  EXPECT_EQ(c.dense_parameters, 2 * 64 * 256);
  EXPECT_EQ(c.boundary_bytes, 1000 * 64 * 2);
}

TEST(LayerCost, TwiceTheSamplesTwiceTheTime) {
  EXPECT_EQ(cost_of(mlp(), {}, round_cluster(1), "generic", 2).forward.compute_ns, 4 * kGemm);
}

// TP 2 has half the width. The all-reduce of the row linear's output, 2 · 64,000 ns, is exposed. That of the input
// gradient overlaps the column linear's weight gradient, which hides 16,384 ns of it.
TEST(LayerCost, TensorParallel) {
  const LayerCost c = cost_of(mlp(), tp(2), round_cluster(2));
  EXPECT_EQ(c.forward, (PhaseTime{kGemm, 2 * kBoundary, 0, 0}));
  EXPECT_EQ(c.backward, (PhaseTime{2 * kGemm, 2 * kBoundary - kGemm / 2, 0, kGemm / 2}));
  EXPECT_EQ(c.dense_parameters, 64 * 256);
  EXPECT_EQ(c.boundary_bytes, 1000 * 64 * 2);  // every rank has the whole output
}

// Sequence parallelism gathers before and scatters after, as many bytes as the all-reduce. Backward, the gather of dY
// is exposed. The second gather of X overlaps the input gradient of the column linear, and the scatter its weight
// gradient: 64,000 ns − 16,384 ns each.
TEST(LayerCost, SequenceParallel) {
  const LayerCost c = cost_of(mlp(), tp(2, SequenceParallel::megatron), round_cluster(2));
  EXPECT_EQ(c.forward, (PhaseTime{kGemm, 2 * kBoundary, 0, 0}));
  EXPECT_EQ(c.backward, (PhaseTime{2 * kGemm, 3 * kBoundary - kGemm, 0, kGemm}));
  EXPECT_EQ(c.boundary_bytes, 1000 * 64);  // each rank has half of the sequence
}

// Gather and scatter overlap the GEMMs that they feed and drain: each hides another 16,384 ns.
TEST(LayerCost, OverlappedTensorParallel) {
  Strategy s = tp(2, SequenceParallel::megatron);
  s.overlap.tp = true;
  const LayerCost c = cost_of(mlp(), s, round_cluster(2));
  EXPECT_EQ(c.forward, (PhaseTime{kGemm, 2 * kBoundary - kGemm, 0, kGemm}));
  EXPECT_EQ(c.backward, (PhaseTime{2 * kGemm, 3 * kBoundary - 3 * kGemm / 2, 0, 3 * kGemm / 2}));
}

// κ = 2 on both sides: 1/2 + 1/2 = 1, so overlapping gains nothing. The hidden 16,384 ns are paid again as slow-down.
TEST(LayerCost, SlowdownIsExposedCommunication) {
  Cluster slow = round_cluster(2);
  auto& e = slow.groups[0].device.efficiency;
  e.overlap_compute_slowdown = e.overlap_communication_slowdown = 2.0;
  EXPECT_EQ(cost_of(mlp(), tp(2), slow).backward.exposed_ns, 2 * kBoundary);
}

// Ulysses has whole weights, half the tokens, and no communication outside attention.
TEST(LayerCost, UlyssesSplitsTokensNotWeights) {
  const LayerCost c = cost_of(mlp(), tp(2, SequenceParallel::ulysses), round_cluster(2));
  EXPECT_EQ(c.forward, (PhaseTime{kGemm, 0, 0, 0}));
  EXPECT_EQ(c.dense_parameters, 2 * 64 * 256);
  EXPECT_EQ(c.boundary_bytes, 1000 * 64);
}

// Attention of 4 heads of 16 over 1000 keys: 2 · 4 · (16 + 16) · 1000 · 1000 FLOP = 256 µs; causal takes half of it,
// backward 2.5 ×. q, k, v and the result are 4 · 1000 · 64 elements, 512,000 bytes, and add 512 ns.
TEST(LayerCost, Attention) {
  const LayerCost full = cost_of(block({attention(4, 16, false)}, 64), {}, round_cluster(1));
  EXPECT_EQ(full.forward.compute_ns, 256000 + 512);
  EXPECT_EQ(full.backward.compute_ns, 640000 + 1280);
  const LayerCost half = cost_of(block({attention(4, 16, true)}, 64), {}, round_cluster(1));
  EXPECT_EQ(half.forward.compute_ns, 128000 + 512);
}

// Ulysses over 2 ranks has half the heads per rank, and four all-to-alls. A rank holds q, k, v and the output of half
// the sequence's worth. 1000 tokens · 2 heads · 32 features of q and out, and as much of k and v, are 128,000
// elements, 256,000 bytes. Half of them leave.
TEST(LayerCost, UlyssesExchangesAroundAttention) {
  const LayerCost c = cost_of(block({attention(4, 16, false)}, 64), tp(2, SequenceParallel::ulysses), round_cluster(2));
  EXPECT_EQ(c.forward.compute_ns, 128000 + 256);
  EXPECT_EQ(c.forward.exposed_ns, 128000);
}

// Context parallelism 2: half the queries against all keys, 128 µs, in two kernels (256 ns of operands) and one merge
// of the fp32 partial results (12 bytes · 500 tokens · 64 features = 384 ns). One ring step passes K and V of 500
// tokens, 2 · 500 · 4 · 32 = 128,000 bytes, under half of it.
TEST(LayerCost, RingAttention) {
  Strategy s;
  s.cp = 2;
  const LayerCost c = cost_of(block({attention(4, 16, false)}, 64), s, round_cluster(2));
  EXPECT_EQ(c.forward.compute_ns, 128000 + 256 + 384);
  EXPECT_EQ(c.forward.hidden_ns, (128000 + 256 + 384) / 2);
  EXPECT_EQ(c.forward.exposed_ns, 128000 - (128000 + 256 + 384) / 2);
}

// FlashAttention-2 on a device whose own kernels are twice as fast; FlashAttention 1 runs at 0.6 of that.
TEST(LayerCost, AttentionKernelsOfTheEngine) {
  Cluster c = round_cluster(1);
  c.groups[0].device.efficiency.attention_flash2 = 0.5;
  const LayerKind kind = block({attention(4, 16, false)}, 64);
  EXPECT_EQ(cost_of(kind, {}, c, "generic").forward.compute_ns, 256000 + 512);
  EXPECT_EQ(cost_of(kind, {}, c, "fsdp1").forward.compute_ns, 512000 + 512);
  EXPECT_EQ(cost_of(kind, {}, c, "llm-foundry").forward.compute_ns, 853333 + 512);
  // Current PyTorch prefers cuDNN's kernels there.
  EXPECT_EQ(cost_of(kind, {}, c, "fsdp2").forward.compute_ns, 256000 + 512);
  EXPECT_EQ(cost_of(kind, {}, c, "torchtitan+torch-2024").forward.compute_ns, 512000 + 512);
  c.groups[0].device.efficiency.attention_flash2 = 2;
  EXPECT_EQ(cost_of(kind, {}, c, "fsdp2").forward.compute_ns, 128000 + 512);
}

/// Returns the cost of `kind` trained as `t` specifies.
LayerCost trained_on(const LayerKind& kind, const Training& t, const Cluster& cluster, const Strategy& strategy,
                     const char* engine) {
  Model model = model_of(kind);
  EXPECT_TRUE(mark_trained(model, t, "").ok());
  const CostContext context(model, cluster, t, plain_engine(engine));
  std::vector<LayerCost> out;
  layer_costs(context, strategy, 1, 1, out);
  return out.front();
}

/// Returns the cost of `kind` on one device, trained at `precision` as `t` specifies.
LayerCost trained(const LayerKind& kind, Precision precision, Training t = tokens(1000)) {
  t.precision = precision;
  return trained_on(kind, t, round_cluster(1), {}, "generic");
}

// Frozen weights have no weight gradients. One pair of rank 4 next to the query-key-value projection takes 2 · 1000 ·
// 4 · 64 FLOPs and 1000 · 2 · 64 bytes down, 2 · 1000 · 4 · 256 and 1000 · 4 · 256 up. √(512² + 128²) + √(2048²
// + 1024²) = 2817.5 ns, forward, for its input and for its own gradients.
TEST(LayerCost, Adapters) {
  const LayerKind kind = block({linear("attn.qkv", 64, 256, TpSplit::column), linear("attn.out", 256, 64, TpSplit::row)}, 64);
  Training t = tokens(1000);
  t.adapter.rank = 4;
  t.adapter.targets = {"attn.qkv"};
  const LayerCost c = trained(kind, Precision::bf16, t);
  EXPECT_NEAR(static_cast<double>(c.forward.compute_ns), 2 * kGemm + 2817.5, 1);
  EXPECT_NEAR(static_cast<double>(c.backward.compute_ns), 2 * kGemm + 2 * 2817.5, 1);
  EXPECT_NEAR(static_cast<double>(c.backward_weight.compute_ns), 2817.5, 1);
  EXPECT_EQ(c.dense_parameters, 4 * (64 + 256));
  EXPECT_EQ(c.frozen_dense_bytes, 2 * (64 * 256 + 256 * 64));
}

// In 8 bits, casts take 2k bytes per token forward, 4n backward: 1000 · 2 · (64 + 256) and twice that.
TEST(LayerCost, EightBitCasts) {
  const LayerCost c = trained(mlp(), Precision::fp8);
  EXPECT_EQ(c.forward.compute_ns, 2 * kGemm + 640);
  EXPECT_EQ(c.backward.compute_ns, 4 * kGemm + 1280);
}

// In blocks of scales, an MXFP8 operand has 33/32 bytes. The casts take 2 · 33/32 bytes per token and input feature
// forward, and 2 + 2 · 33/32 per output feature backward: 1000 · 320 · 2.0625 and 4.0625. An NVFP4 operand has 18/32
// bytes and two kernels, each of which reads 2 bytes: 1000 · 320 · 3.125 and 5.125.
TEST(LayerCost, CastsInBlocksOfScales) {
  const LayerCost eight = trained(mlp(), Precision::mxfp8), four = trained(mlp(), Precision::nvfp4);
  EXPECT_EQ(eight.forward.compute_ns, 2 * kGemm + 660);
  EXPECT_EQ(eight.backward.compute_ns, 4 * kGemm + 1300);
  EXPECT_EQ(four.forward.compute_ns, 2 * kGemm + 1000);
  EXPECT_EQ(four.backward.compute_ns, 4 * kGemm + 1640);
}

// Sequence parallelism in 8 bits where the engine casts before it gathers. The backward pass has two gathers and a
// sum, the forward pass one of each; the gathers have half the bytes. Products and casts that hide them are those of
// an engine that gathers 16 bits.
TEST(LayerCost, EightBitOperandsAreGathered) {
  Training t = tokens(1000);
  t.precision = Precision::fp8;
  const auto exposed = [&](const char* engine) {
    return trained_on(mlp(), t, round_cluster(2), tp(2, SequenceParallel::megatron), engine);
  };
  const LayerCost wide = exposed("generic"), eight = exposed("megatron-core");
  EXPECT_EQ(wide.forward.exposed_ns, 2 * kBoundary);
  EXPECT_EQ(eight.forward.exposed_ns, 3 * kBoundary / 2);
  EXPECT_EQ(wide.backward.exposed_ns - eight.backward.exposed_ns, 2 * kBoundary / 2);
}

// Top 4 over 2 ranks of a node reaches 2·(1 − 1/2⁴) = 1.875 distinct ranks with 4 copies.
TEST(LayerCost, DispatchersSendATokenOnceToAPlace) {
  Operator dispatch;
  dispatch.kind = OperatorKind::dispatch;
  dispatch.name = "dispatch";
  dispatch.in = 64;
  dispatch.experts = 8;
  dispatch.top_k = 4;
  Strategy s;
  s.dp = s.ep = 2;
  const auto exposed = [&](const char* engine) {
    return static_cast<double>(cost_of(block({dispatch}, 64), s, round_cluster(2), engine).forward.exposed_ns);
  };
  EXPECT_NEAR(exposed("nemo-automodel") / exposed("generic"), 1.875 / 4, 1e-3);
}

// The CPU launches kernels one after the other: 2 GEMMs of 32.8 µs wait for 2 launches of 50 µs, which adds 34,464
// ns.
TEST(LayerCost, SlowLaunchesLeaveTheDeviceIdle) {
  Cluster c = round_cluster(1);
  c.groups[0].device.efficiency.kernel_launch = microseconds(50);
  const LayerCost cost = cost_of(mlp(), {}, c);
  EXPECT_EQ(cost.forward.duration_ns(), 100000);
  EXPECT_EQ(cost.forward.other_ns, 100000 - 2 * kGemm);
}

// An eager engine takes nine bare launches of host time per kernel. Forward has 2 kernels; backward has 2 input
// gradients, 2 weight gradients and their 2 additions to the accumulated gradients.
TEST(LayerCost, EagerModulesTakeHostTime) {
  Cluster c = round_cluster(1);
  c.groups[0].device.efficiency.kernel_launch = microseconds(5);
  const LayerCost cost = cost_of(mlp(), {}, c, "megatron-lm-2021");
  EXPECT_EQ(cost.forward.duration_ns(), 2 * 9 * 5000);
  EXPECT_EQ(cost.backward.duration_ns(), 6 * 9 * 5000);
}

LayerCost cost_with(const EngineModel& engine, const LayerKind& kind, const Strategy& s, const Cluster& cluster,
                    std::int32_t stages = 1) {
  const Model model = model_of(kind, 2);
  const CostContext context(model, cluster, tokens(1000), engine);
  std::vector<LayerCost> out;
  layer_costs(context, s, stages, 1, out);
  return out.front();
}

// Two linears have 16,384 weights each. A pass of its own reads 2 bytes of the new gradient, and reads and writes 4
// of the accumulated one.
TEST(LayerCost, GradientsAccumulatedByAPassOfTheirOwn) {
  EngineModel engine = plain_engine("generic");
  engine.eager.fused_gradient_accumulation = false;
  EXPECT_EQ(cost_with(engine, mlp(), {}, round_cluster(1)).backward.compute_ns, 4 * kGemm + std::llround(2 * 163.84));
}

/// Returns two nodes of `per_node` round devices, with 1 GB/s between them as well.
Cluster two_nodes(std::int64_t per_node) {
  Cluster c = round_cluster(per_node);
  c.groups[0].nodes = 2;
  FabricLevel level = c.groups[0].intra.front();
  level.name = "rails";
  level.kind = FabricKind::rail_optimized;
  level.span = 2 * per_node;
  c.inter = {level};
  return c;
}

// TP 2 has one all-reduce forward. The host waits 2 ranks · 100 µs for it where stages that block on their messages
// lie on two nodes. That is longer than the 32,768 ns of compute and 128,000 ns of communication.
TEST(LayerCost, CollectivesOfBlockingStagesWait) {
  EngineModel engine = plain_engine("generic");
  engine.coefficients.collective_wait_s = 100e-6;
  EXPECT_EQ(cost_with(engine, mlp(), tp(2), two_nodes(2), 2).forward.other_ns, 0);
  engine.eager.message_host_calls = 30;
  EXPECT_EQ(cost_with(engine, mlp(), tp(2), two_nodes(2), 2).forward.duration_ns(), 200000);
  EXPECT_EQ(cost_with(engine, mlp(), tp(2), two_nodes(2), 1).forward.other_ns, 0);
  EXPECT_EQ(cost_with(engine, mlp(), tp(2), round_cluster(4), 2).forward.other_ns, 0);
}

TEST(LayerCost, CollectivesAcrossNodesWaitForTheNetwork) {
  EngineModel engine = plain_engine("generic");
  const std::int64_t before = cost_with(engine, mlp(), tp(2), two_nodes(1)).forward.exposed_ns;
  engine.coefficients.network_wait_s = 10e-6;
  EXPECT_EQ(cost_with(engine, mlp(), tp(2), two_nodes(1)).forward.exposed_ns, before + 2 * 10000);
  EXPECT_EQ(cost_with(engine, mlp(), tp(2), two_nodes(2)).forward.exposed_ns, 128000);  // inside a node
}

// Element-wise work on 1000 tokens of 64 features in bf16, in bytes read and written: the norm takes 4 per feature
// forward and 6 backward, the residual 6 each way.
TEST(LayerCost, ElementwiseIsMemory) {
  Operator norm, residual;
  norm.kind = OperatorKind::norm;
  norm.name = "norm";
  norm.in = 64;
  residual.kind = OperatorKind::residual;
  residual.name = "add";
  residual.in = 64;
  const LayerCost c = cost_of(block({norm, residual}, 64), {}, round_cluster(1));
  EXPECT_EQ(c.forward.compute_ns, 256 + 384);
  EXPECT_EQ(c.backward.compute_ns, 384 + 384);
  // Sequence parallelism splits both.
  EXPECT_EQ(cost_of(block({norm, residual}, 64), tp(2, SequenceParallel::megatron), round_cluster(2)).forward.compute_ns,
            128 + 192);
  EXPECT_EQ(cost_of(block({norm, residual}, 64), tp(2), round_cluster(2)).forward.compute_ns, 256 + 384);
}

/// Returns dispatch, two expert linears and combine: 4 experts, each token to one.
LayerKind experts() {
  Operator dispatch, combine, up = linear("moe.up", 64, 256, TpSplit::column), down = linear("moe.down", 256, 64, TpSplit::row);
  dispatch.kind = OperatorKind::dispatch;
  dispatch.name = "moe.dispatch";
  dispatch.in = 64;
  combine.kind = OperatorKind::combine;
  combine.name = "moe.combine";
  combine.in = 64;
  up.kind = down.kind = OperatorKind::expert_linear;
  up.parameters = down.parameters = 4 * 64 * 256;
  std::vector<Operator> all = {dispatch, up, down, combine};
  for (Operator& op : all) {
    op.experts = 4;
    op.top_k = 1;
  }
  return block(all, 64);
}

// One device has the FLOPs of the dense layer, weights of four experts, and two permutations of 1000 tokens (256 ns
// each).
TEST(LayerCost, ExpertsOnOneDevice) {
  const LayerCost c = cost_of(experts(), {}, round_cluster(1));
  EXPECT_EQ(c.forward.compute_ns, 2 * kGemm + 2 * 256);
  EXPECT_EQ(c.forward.exposed_ns, 0);
  EXPECT_EQ(c.expert_parameters, 8 * 64 * 256);
  EXPECT_EQ(c.dense_parameters, 0);
}

// EP 2 over dp 2 has two experts per rank, and an all-to-all of 128,000 bytes before and after, half of which leaves.
TEST(LayerCost, ExpertParallel) {
  Strategy s;
  s.dp = s.ep = 2;
  const LayerCost c = cost_of(experts(), s, round_cluster(2));
  EXPECT_EQ(c.forward.compute_ns, 2 * kGemm + 2 * 256);
  EXPECT_EQ(c.forward.exposed_ns, 2 * kBoundary);
  EXPECT_EQ(c.expert_parameters, 4 * 64 * 256);
}

// Overlapped with another micro-batch, each of the four all-to-alls can hide under a quarter of the layer's compute.
TEST(LayerCost, ExpertsBesideAnotherMicroBatch) {
  Strategy s;
  s.dp = s.ep = 2;
  const LayerCost alone = cost_of(experts(), s, round_cluster(2), "megatron-core");
  const LayerCost beside = cost_of(experts(), s, round_cluster(2), "megatron-core+overlap-experts");
  const std::int64_t quarter = (alone.forward.compute_ns + alone.backward.compute_ns) / 4;
  EXPECT_EQ(alone.forward.exposed_ns, 2 * kBoundary);
  EXPECT_EQ(beside.forward.compute_ns, alone.forward.compute_ns);
  EXPECT_NEAR(static_cast<double>(beside.forward.exposed_ns), static_cast<double>(2 * (kBoundary - quarter)), 4);
  EXPECT_NEAR(static_cast<double>(beside.backward.exposed_ns), static_cast<double>(2 * (kBoundary - quarter)), 4);
  EXPECT_NEAR(static_cast<double>(beside.forward.hidden_ns), static_cast<double>(2 * quarter), 4);
}

// Without expert parallelism there is nothing to overlap.
TEST(LayerCost, OverlapOfExpertsNeedsThemElsewhere) {
  EXPECT_EQ(cost_of(experts(), {}, round_cluster(1), "megatron-core+overlap-experts").forward,
            cost_of(experts(), {}, round_cluster(1), "megatron-core").forward);
}

// Graphs launch nothing. Graphs up to the dispatch leave the launches of the experts: 6 + 2 kernels of each
// permutation and its exchange, one of each product.
TEST(LayerCost, GraphsTakeLaunchesAway) {
  Cluster c = round_cluster(2);
  c.groups[0].device.efficiency.kernel_launch = microseconds(50);
  Strategy s;
  s.dp = s.ep = 2;
  LayerKind kind = experts();
  kind.operators.insert(kind.operators.begin(), linear("router", 64, 4, TpSplit::none));
  const auto forward = [&](const char* engine) { return cost_of(kind, s, c, engine).forward; };
  constexpr std::int64_t kLaunch = 24 * 50000;  // Transformer Engine's modules
  EXPECT_EQ(forward("megatron-core").duration_ns(), (2 * (6 + 2) + 2 + 1) * kLaunch);
  EXPECT_EQ(forward("megatron-core+moe-graphs").duration_ns(), (2 * (6 + 2) + 2) * kLaunch);
  EXPECT_EQ(forward("megatron-core+cuda-graphs").other_ns, 0);
}

// Two experts per rank are cast one by one: two products of 2 · 9 launches of 50 µs forward, and as many backward,
// which no casts of 1000 tokens fill.
TEST(LayerCost, EightBitExpertsAreCastOneByOne) {
  Cluster c = round_cluster(2);
  c.groups[0].device.efficiency.kernel_launch = microseconds(50);
  Training t = tokens(1000);
  Strategy s;
  s.dp = s.ep = 2;
  const auto cost = [&](Precision precision) {
    t.precision = precision;
    return trained_on(experts(), t, c, s, "megatron-core");
  };
  const LayerCost wide = cost(Precision::bf16), eight = cost(Precision::fp8);
  constexpr std::int64_t kCasts = 2 * 2 * 9 * 50000;
  EXPECT_EQ(eight.forward.compute_ns - wide.forward.compute_ns, kCasts);
  EXPECT_EQ(eight.backward.compute_ns - wide.backward.compute_ns, kCasts);
}

// 8-bit experts are cast as well: 4 bytes of traffic per element of the input forward, of the output gradient
// backward.
TEST(LayerCost, EightBitExpertsAreCast) {
  const LayerCost wide = cost_of(experts(), {}, round_cluster(1)), eight = trained(experts(), Precision::fp8);
  EXPECT_EQ(eight.forward.compute_ns - wide.forward.compute_ns, 4 * (64 + 256));
  EXPECT_EQ(eight.backward.compute_ns - wide.backward.compute_ns, 4 * (256 + 64));
}

}  // namespace
}  // namespace espalier::cost::layer_cost_test
