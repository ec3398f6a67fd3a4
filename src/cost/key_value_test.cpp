// SPDX-License-Identifier: Apache-2.0
// Fewer key/value heads than tensor ranks, and the sums of gradients inside a tensor group, by hand on round numbers
// (test_problem.h).
#include "plan/key_value.h"

#include <gtest/gtest.h>

#include "cost/by_chunk.h"
#include "cost/price.h"
#include "cost/state_memory.h"
#include "cost/test_problem.h"
#include "plan/engine.h"

namespace espalier::cost::key_value_test {
namespace {

using namespace test;

/// Returns a block with h = 64 and 4 query heads of 16 features: q 64; k and v 16 for each of `kv` heads.
LayerKind grouped(std::int32_t kv) {
  Operator core = attention(4, 16, true);
  core.kv_heads = kv;
  return block({linear("qkv", 64, 64 + 2 * 16 * kv, TpSplit::column), core, linear("out", 64, 64, TpSplit::row)}, 64);
}

Strategy tp(std::int32_t degree, SequenceParallel sp = SequenceParallel::none) {
  Strategy s;
  s.tp = degree;
  s.sp = sp;
  return s;
}

cost::test::ByChunk timed(const LayerKind& kind, int layers, const Strategy& s, Cluster cluster) {
  const Model model = model_of(kind, layers);
  const EngineModel& engine = plain_engine("generic");
  const CostContext context(model, cluster, tokens(1000), engine);
  const SplitTable split = split_for(model, tokens(1000), engine, 1);
  std::vector<LayerCost> costs;
  ProgramStructure structure;
  Costs timing;
  PriceScratch scratch;
  layer_costs(context, s, 1, 1, costs);
  structure_for(model, s, {}, split, structure);
  price(context, structure, s, split, costs, scratch, timing);
  return cost::test::rows_of(timing, structure);
}

// 2 key/value heads on 4 ranks: a rank has one query head (16 outputs) and a whole key/value head (16 + 16). These
// are 48 · 64 elements, not a quarter of 128 · 64; the output projection adds 64 · 64 / 4. Two ranks hold the same
// head.
TEST(KeyValue, SmallestExample) {
  const EngineModel& engine = plain_engine("generic");
  const LayerKind kind = grouped(2);
  EXPECT_EQ(parameters_on_rank(model_of(kind), kind, engine, {}, tp(4)).dense, 48 * 64 + 16 * 64);
  // Each rank has a head, so the head is split.
  EXPECT_EQ(parameters_on_rank(model_of(kind), kind, engine, {}, tp(2)).dense, 64 * 64 + 32 * 64);
  EXPECT_EQ(tensor_sync(kind, engine, tp(4)), (TensorSync{0, 32 * 64, 2}));
  EXPECT_EQ(tensor_sync(kind, engine, tp(2)), (TensorSync{0, 0, 1}));
  // One head for all gives 16 + 32 outputs again, and four ranks sum its gradient.
  EXPECT_EQ(parameters_on_rank(model_of(grouped(1)), grouped(1), engine, {}, tp(4)).dense, 48 * 64 + 16 * 64);
  EXPECT_EQ(tensor_sync(grouped(1), engine, tp(4)), (TensorSync{0, 32 * 64, 4}));
  // Ulysses splits no weight.
  EXPECT_EQ(parameters_on_rank(model_of(kind), kind, engine, {}, tp(4, SequenceParallel::ulysses)).dense, 128 * 64 + 64 * 64);
}

// Keys that are values as well (gemma4): 16 outputs of each head's 16 + 16. On 4 ranks each has a query head and a
// whole key head, 32 outputs.
TEST(KeyValue, KeysThatAreValues) {
  LayerKind kind = grouped(2);
  kind.operators[0] = linear("qkv", 64, 64 + 16 * 2, TpSplit::column);
  EXPECT_EQ(parameters_on_rank(model_of(kind), kind, plain_engine("generic"), {}, tp(4)).dense, 32 * 64 + 16 * 64);
  EXPECT_EQ(tensor_sync(kind, plain_engine("generic"), tp(4)), (TensorSync{0, 16 * 64, 2}));
  EXPECT_EQ(parameters_on_rank(model_of(kind), kind, plain_engine("generic"), {}, tp(2)).dense, 48 * 64 + 32 * 64);
}

// The bias of a replicated head is on every rank that holds it: (64 + 1) elements per output.
TEST(KeyValue, WithItsBias) {
  LayerKind kind = grouped(2);
  kind.operators[0].parameters += 128;
  EXPECT_EQ(parameters_on_rank(model_of(kind), kind, plain_engine("generic"), {}, tp(4)).dense, 48 * 65 + 16 * 64);
}

// A rank computes and keeps as much as in a model with as many key/value heads as ranks: one whole head.
TEST(KeyValue, TimeAndActivationsAreThoseOfAWholeHead) {
  const LayerCost few = cost_of(grouped(2), tp(4), round_cluster(4)), many = cost_of(grouped(4), tp(4), round_cluster(4));
  EXPECT_EQ(few.forward.compute_ns, many.forward.compute_ns);
  EXPECT_EQ(few.backward.compute_ns, many.backward.compute_ns);
  EXPECT_EQ(few.saved.none, many.saved.none);
  EXPECT_EQ(few.transient.backward, many.transient.backward);
  EXPECT_EQ(few.dense_parameters, many.dense_parameters);
}

// Once a step, 2 ranks sum 32 · 64 elements of 4 bytes on the wire: 2 · 8192 / 2 bytes at 1 GB/s, for each of three
// layers.
TEST(KeyValue, GradientsOfOneHeadAreSummedOnceAStep) {
  const cost::test::ByChunk x = timed(grouped(2), 3, tp(4), round_cluster(4));
  EXPECT_EQ(x.stages[0].optimizer_exposed_ns, 3 * 8192);
  EXPECT_EQ(timed(grouped(4), 3, tp(4), round_cluster(4)).stages[0].optimizer_exposed_ns, 0);
  // The update takes 34 bytes per element for 3072 + 1024 elements per layer, at 1 TB/s.
  EXPECT_EQ(x.stages[0].optimizer_ns, std::llround(34.0 * 3 * 4096 / 1000.0) + 3 * 8192);
}

/// Returns a norm of 64 weights before two linears, the second with a bias of 64.
LayerKind normed() {
  Operator norm;
  norm.kind = OperatorKind::norm;
  norm.name = "norm";
  norm.in = norm.out = 64;
  norm.parameters = norm.parameters_unsplit = 64;
  LayerKind kind = block({norm, linear("up", 64, 256, TpSplit::column), linear("down", 256, 64, TpSplit::row)}, 64);
  kind.operators.back().parameters += 64;
  kind.operators.back().parameters_unsplit = 64;
  return kind;
}

// Under Megatron's sequence parallelism each of two ranks has the gradients of its own tokens, for norm weights and
// for the bias after the row linear. (64 + 64) · 4 bytes among two ranks take 512 ns per layer. Without it every rank
// has all tokens; under Ulysses data-parallel reduction includes the group.
TEST(TensorSync, WeightsThatSeeAPartOfTheSequence) {
  EXPECT_EQ(timed(normed(), 3, tp(2, SequenceParallel::megatron), round_cluster(2)).stages[0].optimizer_exposed_ns, 3 * 512);
  EXPECT_EQ(timed(normed(), 3, tp(2), round_cluster(2)).stages[0].optimizer_exposed_ns, 0);
  EXPECT_EQ(timed(normed(), 3, tp(2, SequenceParallel::ulysses), round_cluster(2)).stages[0].optimizer_exposed_ns, 0);
}

// Each chunk sends one message: with 1 µs per hop three layers take only 2 · 512 ns longer than one.
TEST(TensorSync, OneMessageAChunk) {
  Cluster far = round_cluster(2);
  far.groups[0].intra[0].latency = Seconds(1e-6);
  const Strategy s = tp(2, SequenceParallel::megatron);
  const std::int64_t one = timed(normed(), 1, s, far).stages[0].optimizer_exposed_ns;
  EXPECT_GT(one, 512 + 1000);
  EXPECT_EQ(timed(normed(), 3, s, far).stages[0].optimizer_exposed_ns, one + 2 * 512);
}

}  // namespace
}  // namespace espalier::cost::key_value_test
