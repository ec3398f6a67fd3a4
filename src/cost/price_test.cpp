// SPDX-License-Identifier: Apache-2.0
// From layers to chunks and stages, by hand on round numbers (test_problem.h); and that its short cuts change
// nothing.
#include "cost/price.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "cost/by_chunk.h"
#include "cost/state_memory.h"
#include "cost/test_problem.h"
#include "plan/engine.h"
#include "plan/generators.h"
#include "plan/rules.h"

namespace espalier::cost::price_test {
namespace {

using namespace test;

/// Holds the timing of `layers` MLP blocks (test_problem.h): forward 65,536 ns, backward 131,072 ns, 32,768
/// parameters each.
struct Timed {
  Model model;
  ByChunk timing;
  ProgramStructure structure;
  std::vector<LayerCost> costs;
};

Timed timed(int layers, const Strategy& s, Schedule schedule, Cluster cluster,
            const EngineModel& engine = plain_engine("generic")) {
  Timed x{model_of(mlp(), layers), {}, {}, {}};
  const CostContext context(x.model, cluster, tokens(1000, 8), engine);
  const SplitTable split = split_for(x.model, tokens(1000, 8), engine, schedule.chunks());
  layer_costs(context, s, schedule.stages, schedule.micro_batch, x.costs);
  structure_for(x.model, s, schedule, split, x.structure);
  Costs priced;
  PriceScratch scratch;
  price(context, x.structure, s, split, x.costs, scratch, priced);
  x.timing = rows_of(priced, x.structure);
  return x;
}

constexpr std::int64_t kForward = 65536, kBackward = 131072, kElements = 32768;

TEST(Price, SmallestExample) {
  const Timed x = timed(3, {}, {}, round_cluster(1));
  ASSERT_EQ(x.timing.chunks.size(), 1U);
  EXPECT_EQ(x.timing.chunks[0].forward.duration_ns(), 3 * kForward);
  EXPECT_EQ(x.timing.chunks[0].backward.duration_ns(), 3 * kBackward);
  EXPECT_EQ(x.timing.stages[0].dense_parameters, 3 * kElements);
  EXPECT_EQ(x.timing.chunks[0].saved_bytes, 3 * x.costs[0].saved.none);
  // An element has 18 bytes: parameter 2, gradient 4, master 4, moments 8.
  EXPECT_EQ(x.timing.stages[0].memory.parameters, 2 * 3 * kElements);
  EXPECT_EQ(x.timing.stages[0].memory.gradients, 4 * 3 * kElements);
  EXPECT_EQ(x.timing.stages[0].memory.optimizer, 12 * 3 * kElements);
  // The update reads and writes gradient, master and moments and writes the parameter: 8 + 8 + 16 + 2 bytes per
  // element at 1 TB/s.
  EXPECT_EQ(x.timing.stages[0].optimizer_ns, std::llround(34.0 * 3 * kElements / 1000.0));
}

// Two stages of three and two layers; the message is 1000 tokens · 64 features · 2 bytes at 1 GB/s.
TEST(Price, Pipeline) {
  Schedule two;
  two.stages = 2;
  two.microbatches = 8;
  const Timed x = timed(5, {}, two, round_cluster(2));
  EXPECT_EQ(x.timing.chunks[0].forward.duration_ns() + x.timing.chunks[1].forward.duration_ns(), 5 * kForward);
  EXPECT_EQ(x.timing.chunks[0].send_forward_ns, 0);
  EXPECT_EQ(x.timing.message_bytes, 128000);
  EXPECT_EQ(x.timing.chunks[1].send_forward_ns, 128000);
  EXPECT_EQ(x.timing.chunks[1].send_backward_ns, 128000);
  // A stage receives one message while it sends another.
  EXPECT_EQ(x.timing.stages[0].memory.communication_buffers, 2 * 128000);
}

// Four stages of two blocks under 2-way tensor and sequence parallelism: a block outputs 1000 tokens · 64 features ·
// 2 bytes that wait to be scattered. With eight micro-batches 4, 3, 2 and 1 are in flight, of which two passes, one,
// none and none may wait. If three blocks fit in the queue, three wait.
TEST(Price, OutputsThatWaitBehindTheQueue) {
  Strategy s;
  s.tp = 2;
  s.sp = SequenceParallel::megatron;
  Schedule four;
  four.stages = 4;
  four.microbatches = 8;
  EngineModel engine = plain_engine("generic");
  const auto buffers = [&](std::int32_t queued, std::size_t stage) {
    engine.eager.queued_blocks = queued;
    return timed(8, s, four, round_cluster(8), engine).timing.stages[stage].memory.communication_buffers;
  };
  const std::int64_t block = 1000 * 64 * 2;
  EXPECT_EQ(buffers(29, 0) - buffers(0, 0), 4 * block);
  EXPECT_EQ(buffers(29, 1) - buffers(0, 1), 2 * block);
  EXPECT_EQ(buffers(29, 2), buffers(0, 2));
  EXPECT_EQ(buffers(29, 3), buffers(0, 3));
  EXPECT_EQ(buffers(3, 0) - buffers(0, 0), 3 * block);
}

// Full recomputation of two of three blocks runs their forward again and keeps their inputs only. One block at a time
// is whole again. When the second is, the third has freed what it kept, which is as much; with all three there is no
// such room.
TEST(Price, FullRecomputation) {
  Strategy s;
  s.recompute = {RecomputeKind::full, 2};
  const Timed x = timed(3, s, {}, round_cluster(1)), none = timed(3, {}, {}, round_cluster(1));
  EXPECT_EQ(x.timing.chunks[0].backward.duration_ns(), 3 * kBackward + 2 * kForward);
  const SavedBytes& saved = x.costs[0].saved;
  EXPECT_EQ(x.timing.chunks[0].saved_bytes, saved.none + 2 * saved.full);
  EXPECT_EQ(x.timing.chunks[0].backward_transient_bytes, none.timing.chunks[0].backward_transient_bytes);
  s.recompute.layers = 3;
  const Timed all = timed(3, s, {}, round_cluster(1));
  EXPECT_EQ(all.timing.chunks[0].backward_transient_bytes - none.timing.chunks[0].backward_transient_bytes,
            saved.none - saved.full);
}

// Two data ranks, gradients in fp32: an all-reduce of 4 · 98,304 bytes takes 2 · half of that in ns.
TEST(Price, GradientReduction) {
  Strategy s;
  s.dp = 2;
  const Timed x = timed(3, s, {}, round_cluster(2));
  EXPECT_TRUE(x.structure.reduce_gradients);
  EXPECT_EQ(x.timing.chunks[0].grad_reduce_ns, 4 * 3 * kElements);
}

// ZeRO-1 has a reduce-scatter (half as long), and a gather of the bf16 parameters; it halves the optimizer state and
// its update.
TEST(Price, ZeroOne) {
  Strategy s;
  s.dp = 2;
  s.zero = ZeroStage::optimizer;
  s.shard = 2;
  const Timed x = timed(3, s, {}, round_cluster(2)), whole = timed(3, {}, {}, round_cluster(1));
  EXPECT_EQ(x.timing.chunks[0].grad_reduce_ns, 4 * 3 * kElements / 2);
  EXPECT_EQ(x.timing.chunks[0].param_gather_ns, 2 * 3 * kElements / 2);
  EXPECT_EQ(x.timing.stages[0].memory.optimizer, whole.timing.stages[0].memory.optimizer / 2);
  EXPECT_EQ(x.timing.stages[0].memory.gradients, whole.timing.stages[0].memory.gradients);
}

// Two stages with two chunks of one layer each. With no more micro-batches than stages the passes of a chunk follow
// each other. Then only a chunk's gradients, half of the stage's, are whole at a time, in addition to the shards of
// all. Otherwise the stage's are whole, whatever the engine frees.
TEST(Price, GradientsAreFreedOnceTheyAreReduced) {
  EngineModel engine = plain_engine("generic");
  engine.memory.states.frees_reduced = true;
  Strategy s;
  s.dp = 2;
  s.zero = ZeroStage::optimizer;
  s.shard = 2;
  Schedule c;
  c.kind = ScheduleKind::interleaved;
  c.stages = c.virtual_stages = c.microbatches = 2;
  const Timed x = timed(4, s, c, round_cluster(4), engine), kept = timed(4, s, c, round_cluster(4));
  EXPECT_EQ(x.timing.stages[0].memory.gradients, 4 * (kElements + kElements));
  EXPECT_EQ(kept.timing.stages[0].memory.gradients, 4 * 2 * kElements);
  EXPECT_EQ(x.timing.chunks[0].grad_reduce_ns, kept.timing.chunks[0].grad_reduce_ns);
  s.dp = s.shard = 4;
  EXPECT_EQ(timed(4, s, c, round_cluster(8), engine).timing.stages[0].memory.gradients, 4 * (kElements / 2 + kElements));
  c.microbatches = 4;
  EXPECT_EQ(timed(4, s, c, round_cluster(8), engine).timing.stages[0].memory.gradients, 4 * 2 * kElements);
  c.kind = ScheduleKind::one_f_one_b;
  c.virtual_stages = 1;
  EXPECT_EQ(timed(4, s, c, round_cluster(8), engine).timing.stages[0].memory.gradients, 4 * 2 * kElements);
  s.zero = ZeroStage::gradients;
  EXPECT_EQ(timed(4, s, c, round_cluster(8), engine).timing.stages[0].memory.gradients, 4 * kElements / 2);
}

// Where the engine does not scatter, the whole is all-reduced: twice as long.
TEST(Price, ZeroOneByAllReduce) {
  EngineModel engine = plain_engine("generic");
  engine.eager.zero1_all_reduces = true;
  Strategy s;
  s.dp = 2;
  s.zero = ZeroStage::optimizer;
  s.shard = 2;
  EXPECT_EQ(timed(3, s, {}, round_cluster(2), engine).timing.chunks[0].grad_reduce_ns, 4 * 3 * kElements);
}

// The update waits for a quarter of the three overlapped buckets.
TEST(Price, ExposedShareOfOverlappedReduction) {
  EngineModel engine = plain_engine("generic");
  Strategy s;
  s.dp = 2;
  s.overlap.grad_reduce = true;
  const Timed hidden = timed(3, s, {}, round_cluster(2), engine);
  engine.coefficients.exposed_share = 0.25;
  const Timed x = timed(3, s, {}, round_cluster(2), engine);
  EXPECT_EQ(hidden.timing.chunks[0].grad_reduce_ns, 4 * kElements);
  EXPECT_EQ(x.timing.chunks[0].grad_reduce_ns, 3 * kElements);
  EXPECT_EQ(x.timing.stages[0].optimizer_ns, hidden.timing.stages[0].optimizer_ns + 3 * kElements);
  EXPECT_EQ(x.timing.stages[0].optimizer_exposed_ns, 3 * kElements);
}

// 2 ms of host work once a step do not belong to the update, which stays what it was.
TEST(Price, HostWorkOfTheStepIsKeptApart) {
  EngineModel engine = plain_engine("generic");
  const Timed none = timed(3, {}, {}, round_cluster(1), engine);
  engine.coefficients.step_s = 0.002;
  const Timed x = timed(3, {}, {}, round_cluster(1), engine);
  EXPECT_EQ(x.timing.stages[0].step_host_ns, 2'000'000);
  EXPECT_EQ(x.timing.stages[0].optimizer_ns, none.timing.stages[0].optimizer_ns + 2'000'000);
  EXPECT_EQ(x.timing.stages[0].optimizer_exposed_ns, 0);
}

// Every rank clips and zeroes whole gradients: 16 bytes per element; the update then reads them once, 30 bytes of the
// half.
TEST(Price, PassesOverWholeGradients) {
  EngineModel engine = plain_engine("generic");
  engine.eager.whole_gradient_bytes = 16;
  Strategy s;
  s.dp = 2;
  s.zero = ZeroStage::optimizer;
  s.shard = 2;
  EXPECT_EQ(timed(3, s, {}, round_cluster(2), engine).timing.stages[0].optimizer_ns,
            std::llround((16.0 + 30.0 / 2) * 3 * kElements / 1000.0));
}

// The host at both ends accompanies messages: 30 calls of 1 µs, bare ones, whatever modules cost the host.
TEST(Price, MessagesWithShapesFirst) {
  EngineModel engine = plain_engine("generic");
  engine.eager.message_host_calls = 30;
  engine.kernels.host_launches = 9;
  engine.coefficients.launch = 2;
  Schedule two;
  two.stages = 2;
  two.microbatches = 8;
  Cluster cluster = round_cluster(2);
  cluster.groups[0].device.efficiency.kernel_launch = microseconds(1);
  EXPECT_EQ(timed(5, {}, two, cluster, engine).timing.chunks[1].send_forward_ns, 128000 + 30000);
}

// Pairs of tensor-parallel ranks with a link of a tenth of the speed between them: 128,000 bytes travel as a whole,
// or half of them and a gather inside the pair.
TEST(Price, ScatteredMessages) {
  EngineModel engine = plain_engine("generic");
  Strategy s;
  s.tp = 2;
  Schedule two;
  two.stages = 2;
  two.microbatches = 8;
  Cluster cluster = round_cluster(4);
  FabricLevel outer = cluster.groups[0].intra[0];
  outer.bandwidth = outer.bandwidth_alone = BytesPerSecond(1e8);
  cluster.groups[0].intra[0].span = 2;
  cluster.groups[0].intra.push_back(outer);
  EXPECT_EQ(timed(5, s, two, cluster, engine).timing.chunks[1].send_forward_ns, 1280000);
  engine.communication.scattered_messages = true;
  EXPECT_EQ(timed(5, s, two, cluster, engine).timing.chunks[1].send_forward_ns, 640000 + 64000);
}

// ZeRO-3 without overlap: each layer gathers 32,768 ns of bf16 parameters in forward and backward and scatters 65,536
// ns of gradients.
TEST(Price, ZeroThree) {
  Strategy s;
  s.dp = 2;
  s.zero = ZeroStage::parameters;
  s.shard = 2;
  const Timed x = timed(3, s, {}, round_cluster(2));
  EXPECT_FALSE(x.structure.reduce_gradients);
  EXPECT_EQ(x.timing.chunks[0].forward.exposed_ns, 3 * kElements);
  EXPECT_EQ(x.timing.chunks[0].backward.exposed_ns, 3 * (kElements + 2 * kElements));
  // States are sharded, and buffers hold two gathered layers and one whole gradient.
  EXPECT_EQ(x.timing.stages[0].memory.parameters, 2 * 3 * kElements / 2);
  EXPECT_EQ(x.timing.stages[0].memory.communication_buffers, 2 * 2 * kElements + 4 * kElements);
}

// Overlapped, κ = 1: gathers hide under the 65,536 ns of forward, gather and scatter (98,304 ns) under the 131,072 ns
// of backward. The first gather and the last scatter of the chunk stay exposed.
TEST(Price, ZeroThreeOverlapped) {
  Strategy s;
  s.dp = 2;
  s.zero = ZeroStage::parameters;
  s.shard = 2;
  s.overlap.grad_reduce = s.overlap.param_gather = true;
  const Timed x = timed(3, s, {}, round_cluster(2));
  EXPECT_EQ(x.timing.chunks[0].forward.exposed_ns, kElements);
  EXPECT_EQ(x.timing.chunks[0].backward.exposed_ns, 2 * kElements);
  EXPECT_EQ(x.timing.chunks[0].forward.hidden_ns, 3 * kElements);
}

// On a slower fabric, 4 ns per byte, gather and scatter of a layer, 3 · 131,072 ns, overlap 131,072 ns of backward;
// recomputation adds 65,536 ns to hide under.
TEST(Price, ZeroThreeHidesBehindRecomputation) {
  Strategy s;
  s.dp = 2;
  s.zero = ZeroStage::parameters;
  s.shard = 2;
  s.overlap.grad_reduce = s.overlap.param_gather = true;
  Cluster slow = round_cluster(2);
  slow.groups[0].intra[0].bandwidth = slow.groups[0].intra[0].bandwidth_alone = BytesPerSecond(0.25e9);
  const auto exposed = [&] { return timed(3, s, {}, slow).timing.chunks[0].backward.exposed_ns; };
  const std::int64_t without = exposed();
  s.recompute = {RecomputeKind::full, 2};
  EXPECT_EQ(exposed(), without - 2 * 2 * kElements);
}

TEST(Price, PartsOfAPhaseAddUp) {
  const PhaseTime whole{1000, 77, 13, 5};
  PhaseTime sum;
  for (int i = 0; i < 7; ++i) sum += part_of(whole, i, 7);
  EXPECT_EQ(sum, whole);
}

// ---- short cuts ---------------------------------------------------------------------------------------------------

struct Problem {
  Model model;
  Training training;
  Cluster cluster;
  Strategy strategy;
  Schedule schedule;
};

/// Returns a legal configuration of a small decoder on eight devices, with or without experts.
Problem any_problem() {
  Problem p;
  DecoderShape shape;
  shape.layers = *rc::gen::inRange(1, 7);
  shape.hidden = 64;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.ffn = 128;
  shape.vocabulary = 96;
  shape.max_positions = 64;
  shape.tied = *rc::gen::arbitrary<bool>();
  shape.experts = *rc::gen::element(0, 4);
  shape.top_k = shape.experts > 0 ? 2 : 0;
  p.model = *make_decoder(shape, "toy");
  p.cluster = round_cluster(8);
  p.training = tokens(32, 16);
  const RuleFacts facts = rule_facts(p.model, p.cluster, p.training);
  for (const auto& [s, c] : *plan_test::many(plan_test::likely_configuration(8, 16))) {
    if (!is_legal(facts, s, c)) continue;
    p.strategy = s;
    p.schedule = c;
    return p;
  }
  RC_DISCARD("no legal configuration among these");
}

Costs timing_of(const Problem& p, const Model& model, const SplitTable& split) {
  const CostContext context(model, p.cluster, p.training, plain_engine("generic"));
  std::vector<LayerCost> costs;
  ProgramStructure structure;
  Costs out;
  PriceScratch scratch;
  layer_costs(context, p.strategy, p.schedule.stages, p.schedule.micro_batch, costs);
  structure_for(model, p.strategy, p.schedule, split, structure);
  price(context, structure, p.strategy, split, costs, scratch, out);
  return out;
}

/// Returns the model with every layer as a kind of its own: no two chunks are twins, blocks are not uniform.
Model apart(const Model& model) {
  Model out = model;
  out.kinds.clear();
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    out.kinds.push_back(model.layer(i));
    out.layers[i] = static_cast<std::int32_t>(i);
  }
  return out;
}

TEST(Price, TwinsAndUniformBlocksChangeNothing) {
  EXPECT_TRUE(rc::check([] {
    const Problem p = any_problem();
    const std::int32_t chunks = p.schedule.chunks();
    const EngineModel& engine = plain_engine("generic");
    const SplitTable split = split_for(p.model, p.training, engine, chunks);
    const Model other = apart(p.model);
    const SplitTable same = split_for(other, p.training, engine, chunks);
    RC_ASSERT(split.layer_counts() == same.layer_counts());
    RC_ASSERT(timing_of(p, p.model, split) == timing_of(p, other, same));
  }));
}

TEST(Price, StructureEqualsThatOfThePlan) {
  EXPECT_TRUE(rc::check([] {
    const Problem p = any_problem();
    const EngineModel& engine = plain_engine("generic");
    const Plan plan = make_uniform_plan(p.model, p.cluster, p.training, "generic", p.strategy, p.schedule, engine.split);
    const SplitTable split = split_for(p.model, p.training, engine, p.schedule.chunks());
    ProgramStructure structure;
    structure_for(p.model, p.strategy, p.schedule, split, structure);
    RC_ASSERT(structure == structure_of(plan.only_pipeline(), p.model));
    std::vector<std::int32_t> counts;
    for (const std::vector<LayerRange>& chunk : chunk_ranges(plan.only_pipeline()))
      counts.push_back(chunk.back().last - chunk.front().first + 1);
    RC_ASSERT(counts == split.layer_counts());
  }));
}

// static_bytes returns the bytes of another sharding without a new timing.
TEST(Price, StaticBytesOfAnotherSharding) {
  EXPECT_TRUE(rc::check([] {
    Problem p = any_problem();
    const SplitTable split = split_for(p.model, p.training, plain_engine("generic"), p.schedule.chunks());
    const CostContext context(p.model, p.cluster, p.training, plain_engine("generic"));
    std::vector<LayerCost> costs;
    layer_costs(context, p.strategy, p.schedule.stages, p.schedule.micro_batch, costs);
    const Costs first = timing_of(p, p.model, split);
    if (p.strategy.data_ranks() > 1) {
      p.strategy.zero = ZeroStage{*rc::gen::inRange(1, 4)};
      p.strategy.shard = static_cast<std::int32_t>(p.strategy.data_ranks());
    }
    const Costs second = timing_of(p, p.model, split);
    std::vector<std::int64_t> bytes;
    static_bytes(context, p.strategy, costs, first, bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      RC_ASSERT(bytes[i] == second.stages[StageId(static_cast<std::int32_t>(i))].memory.total());
  }));
}

// All parameters are held somewhere: over chunks, elements of a rank times the ranks that split them (padding aside:
// 96 rows divide).
TEST(Price, EveryParameterIsHeldOnce) {
  EXPECT_TRUE(rc::check([] {
    const Problem p = any_problem();
    const SplitTable split = split_for(p.model, p.training, plain_engine("generic"), p.schedule.chunks());
    const Costs timing = timing_of(p, p.model, split);
    std::int64_t dense = 0, expert = 0, expected_expert = 0;
    for (const StageCost& s : timing.stages) {
      dense += s.dense_parameters;
      expert += s.expert_parameters;
    }
    for (std::size_t i = 0; i < p.model.layers.size(); ++i)
      for (const Operator& op : p.model.layer(i).operators)
        if (op.kind == OperatorKind::expert_linear) expected_expert += op.parameters;
    RC_ASSERT(expert * p.strategy.ep * p.strategy.etp == expected_expert);
    const std::int64_t whole = parameter_count(p.model) - expected_expert;
    RC_ASSERT(dense <= whole + (p.model.tied_embeddings ? 96 * 64 : 0));
    RC_ASSERT(dense * p.strategy.weight_tp() >= whole);
  }));
}

}  // namespace
}  // namespace espalier::cost::price_test
