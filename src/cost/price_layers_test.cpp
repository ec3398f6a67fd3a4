// SPDX-License-Identifier: Apache-2.0
// Layers with strategies of their own: by hand on round numbers, and equal to one strategy for all where all are
// alike.
#include "cost/plan_testing.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "cost/by_chunk.h"
#include "cost/layer_share.h"
#include "cost/price_parts.h"
#include "cost/test_problem.h"
#include "plan/engine.h"
#include "plan/rules.h"
#include "plan/structure.h"

namespace espalier::cost::price_layers_test {
namespace {

using namespace test;

/// Holds ranges and what they point to.
struct Layered {
  Schedule schedule;
  std::deque<Strategy> strategies;
  std::deque<std::vector<LayerCost>> costs;
  ChunkRanges chunks;
  cost::test::ByChunk timing;
  ProgramStructure structure;

  void add(const CostContext& c, std::size_t chunk, std::int32_t first, std::int32_t last, const Strategy& s,
           std::int64_t samples) {
    strategies.push_back(s);
    costs.emplace_back();
    layer_costs(c, s, schedule.stages, static_cast<std::int32_t>(samples / s.dp), costs.back());
    chunks.resize(std::max(chunks.size(), chunk + 1));
    chunks[chunk].push_back({first, last, &strategies.back(), &costs.back()});
  }
  void time(const CostContext& c) {
    std::vector<const Strategy*> all;
    std::vector<std::int32_t> layers;
    for (const Strategy& s : strategies) all.push_back(&s);
    for (const auto& ranges : chunks) layers.push_back(ranges.back().last - ranges.front().first + 1);
    structure_of(*c.workload.model, all, schedule, layers, structure);
    Costs priced;
    price(c, structure, chunks, priced);
    timing = cost::test::rows_of(priced, structure);
  }
};

constexpr std::int64_t kForward = 65536, kBackward = 131072, kElements = 32768;

// Two blocks on two devices, with two samples per micro-batch: the first is data-parallel (a sample each), the second
// is split over both (half of the work of both samples). The second fetches the other sample, 128,000 bytes; its
// all-reduce of 256,000 bytes takes as many ns. Nothing else moves on the way back, where every device has the whole
// gradient.
TEST(PriceLayers, SmallestExample) {
  const Model model = model_of(mlp(), 2);
  const CostContext c(model, round_cluster(2), tokens(1000, 2), plain_engine("generic"));
  Strategy data, tensor;
  data.dp = 2;
  tensor.tp = 2;
  Layered x;
  x.add(c, 0, 0, 0, data, 2);
  x.add(c, 0, 1, 1, tensor, 2);
  x.time(c);
  const cost::test::ChunkRow& t = x.timing.chunks[0];
  EXPECT_EQ(t.forward.compute_ns, 2 * kForward);
  EXPECT_EQ(t.forward.exposed_ns, 128000 + 256000);
  EXPECT_EQ(t.backward.compute_ns, 2 * kBackward);
  EXPECT_EQ(t.backward.exposed_ns, x.costs[1][0].backward.exposed_ns);
  // Only the first block's gradients are reduced: 4 · 32,768 bytes over two.
  EXPECT_TRUE(x.structure.reduce_gradients);
  EXPECT_EQ(t.grad_reduce_ns, 4 * kElements);
  const cost::test::StageRow& stage = x.timing.stages[0];
  EXPECT_EQ(stage.dense_parameters, kElements + kElements / 2);
  EXPECT_EQ(stage.reduced_elements, kElements);
  EXPECT_EQ(stage.memory.parameters + stage.memory.gradients + stage.memory.optimizer, 18 * (kElements + kElements / 2));
  EXPECT_EQ(stage.optimizer_ns, std::llround(34.0 * (kElements + kElements / 2) / 1000.0));
  EXPECT_EQ(t.saved_bytes, x.costs[0][0].saved.none + x.costs[1][0].saved.none);
}

// Three blocks: ZeRO-1 for the first, ZeRO-3 for the second, none for the third. The first gathers once a step. The
// second gathers with every micro-batch, 32,768 ns down and up, and scatters 65,536 ns. The third reduces whole,
// twice as long as a scatter.
TEST(PriceLayers, MixedSharding) {
  const Model model = model_of(mlp(), 3);
  const CostContext c(model, round_cluster(2), tokens(1000, 2), plain_engine("generic"));
  Strategy none, one, three;
  none.dp = one.dp = three.dp = 2;
  one.zero = ZeroStage::optimizer;
  three.zero = ZeroStage::parameters;
  one.shard = three.shard = 2;
  Layered x;
  x.add(c, 0, 0, 0, one, 2);
  x.add(c, 0, 1, 1, three, 2);
  x.add(c, 0, 2, 2, none, 2);
  x.time(c);
  const cost::test::ChunkRow& t = x.timing.chunks[0];
  EXPECT_EQ(t.forward.exposed_ns, kElements);
  EXPECT_EQ(t.backward.exposed_ns, 3 * kElements);
  EXPECT_EQ(t.grad_reduce_ns, 2 * kElements + 4 * kElements);
  EXPECT_EQ(t.param_gather_ns, kElements);
  const StaticMemory& memory = x.timing.stages[0].memory;
  EXPECT_EQ(memory.parameters, 2 * (kElements + kElements / 2 + kElements));
  EXPECT_EQ(memory.gradients, 4 * (kElements + kElements / 2 + kElements));
  EXPECT_EQ(memory.optimizer, 12 * (kElements / 2 + kElements / 2 + kElements));
  EXPECT_EQ(memory.communication_buffers, 2 * 2 * kElements + 4 * kElements);  // buffers of the ZeRO-3 block
}

// Two stages: the message travels as the sender holds it, a sample of 128,000 bytes; the receiver fetches the other
// sample.
TEST(PriceLayers, StagesThatSpreadDifferently) {
  const Model model = model_of(mlp(), 2);
  const CostContext c(model, round_cluster(4), tokens(1000, 8), plain_engine("generic"));
  Strategy data, tensor;
  data.dp = 2;
  tensor.tp = 2;
  Layered x;
  x.schedule.stages = 2;
  x.schedule.microbatches = 4;
  x.add(c, 0, 0, 0, data, 2);
  x.add(c, 1, 1, 1, tensor, 2);
  x.time(c);
  EXPECT_EQ(x.timing.message_bytes, 128000);
  EXPECT_EQ(x.timing.chunks[1].send_forward_ns, 128000);
  EXPECT_EQ(x.timing.chunks[1].forward.exposed_ns, 128000 + 256000);
  EXPECT_EQ(x.timing.stages[0].reduced_elements, kElements);
  EXPECT_EQ(x.timing.stages[1].reduced_elements, 0);
  EXPECT_EQ(x.timing.chunks[0].grad_reduce_ns, 4 * kElements);
  EXPECT_EQ(x.timing.chunks[1].grad_reduce_ns, 0);
}

// ---- a plan of equal strategies, cut into ranges ------------------------------------------------------------------

struct Problem {
  Model model;
  Training training;
  Cluster cluster;
  const EngineModel* engine = nullptr;
};

/// Returns a small decoder, with or without experts, tied or not, under any engine with its fitted coefficients. It
/// has `devices` devices, each eight with a fast link.
Problem any_problem(std::mt19937& engine, std::int64_t devices) {
  Problem p;
  DecoderShape shape;
  shape.layers = 1 + static_cast<std::int64_t>(engine() % 7);
  shape.hidden = 64;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.ffn = 128;
  shape.vocabulary = 96;
  shape.max_positions = 64;
  shape.tied = engine() % 2 == 0;
  shape.experts = engine() % 2 == 0 ? 4 : 0;
  shape.top_k = shape.experts > 0 ? 2 : 0;
  p.model = *make_decoder(shape, "toy");
  p.cluster = round_cluster(devices);
  FabricLevel outer = p.cluster.groups[0].intra[0];
  outer.bandwidth = outer.bandwidth_alone = BytesPerSecond(1e8);
  outer.latency = microseconds(3);
  p.cluster.groups[0].intra[0].span = 2;
  p.cluster.groups[0].intra.push_back(outer);
  DeviceEfficiency& e = p.cluster.groups[0].device.efficiency;
  e.kernel_launch = microseconds(2);
  e.overlap_compute_slowdown = 1.2;
  e.overlap_communication_slowdown = 1.1;
  p.training = tokens(32, 16);
  p.engine = &engine_catalogue()[engine() % engine_catalogue().size()];
  return p;
}

std::int32_t pick(std::mt19937& engine, std::initializer_list<std::int32_t> values) {
  return values.begin()[engine() % values.size()];
}

/// Returns any configuration, made so that it is often legal.
std::pair<Strategy, Schedule> any_configuration(std::mt19937& engine, std::int32_t devices, std::int32_t batch) {
  Strategy s;
  Schedule c;
  s.tp = pick(engine, {1, 1, 2, 4});
  s.cp = pick(engine, {1, 1, 1, 2});
  c.stages = pick(engine, {1, 2, 2, 4});
  s.dp = std::max(1, devices / (s.tp * s.cp * c.stages));
  if (s.tp > 1) s.sp = static_cast<SequenceParallel>(engine() % 3);
  s.ep = pick(engine, {1, 1, 2, 4});
  s.etp = pick(engine, {1, 1, s.weight_tp()});
  s.zero = static_cast<ZeroStage>(engine() % 4);
  if (s.shards_optimizer()) s.shard = static_cast<std::int32_t>(s.data_ranks()) / (engine() % 3 == 0 ? 2 : 1);
  s.recompute.kind = static_cast<RecomputeKind>(engine() % 3);
  if (s.recompute.kind == RecomputeKind::full) s.recompute.layers = 1 + static_cast<std::int32_t>(engine() % 4);
  s.order = s.dp > 1 && c.stages > 1 && engine() % 4 == 0 ? RankOrder::tp_cp_pp_dp : RankOrder::tp_cp_dp_pp;
  s.overlap = {s.data_ranks() > 1 && engine() % 2 == 0, s.shards_optimizer() && engine() % 2 == 0,
               c.stages > 1 && engine() % 2 == 0, s.sp == SequenceParallel::megatron && engine() % 2 == 0};
  if (c.stages > 1) c.kind = static_cast<ScheduleKind>(engine() % 5);
  c.virtual_stages = c.kind == ScheduleKind::interleaved || c.kind == ScheduleKind::zb_v ? 2 : 1;
  c.micro_batch = pick(engine, {1, 1, 2});
  c.microbatches = std::max(1, batch / (s.dp * c.micro_batch));
  return {s, c};
}

/// Cuts the layers of one chunk into ranges at random places, with full recomputation where the uniform plan has it.
void cut(std::mt19937& engine, const CostContext& c, const Strategy& s, std::size_t chunk, std::int32_t first, std::int32_t last,
         std::int64_t samples, Layered& x) {
  const auto is_block = [&](std::int32_t l) {
    return c.workload.model->layer(static_cast<std::size_t>(l)).role == LayerRole::block;
  };
  std::int32_t again = s.recompute.layers;  // blocks still to recompute
  const bool full = s.recompute.kind == RecomputeKind::full;
  for (std::int32_t begin = first; begin <= last;) {
    Strategy own = s;
    std::int32_t end = begin, blocks = is_block(begin) ? 1 : 0;
    while (end < last && engine() % 3 != 0) blocks += is_block(++end) ? 1 : 0;
    if (full) own.recompute = again > 0 ? Recompute{RecomputeKind::full, again} : Recompute{};
    again -= blocks;
    x.add(c, chunk, begin, end, own, samples);
    begin = end + 1;
  }
}

TEST(PriceLayers, EqualsThePriceOfOneStrategy) {
  std::mt19937 engine(23);
  int compared = 0, ranges = 0;
  std::array<int, 5> schedules{};
  std::array<int, 4> zeros{};
  for (int trial = 0; trial < 60'000 && compared < 3000; ++trial) {
    const std::int64_t devices = pick(engine, {2, 4, 8, 16});
    const Problem p = any_problem(engine, devices);
    const RuleFacts facts = rule_facts(p.model, p.cluster, p.training);
    for (int tries = 0; tries < 8; ++tries) {
      const auto configuration = any_configuration(engine, static_cast<std::int32_t>(devices), 16);
      const Strategy& s = configuration.first;
      const Schedule& schedule = configuration.second;
      if (!is_legal(facts, s, schedule)) continue;
      const CostContext c(p.model, p.cluster, p.training, *p.engine);
      const SplitTable split = split_for(p.model, p.training, *p.engine, schedule.chunks());
      std::vector<LayerCost> costs;
      ProgramStructure structure;
      Costs timing;
      PriceScratch scratch;
      layer_costs(c, s, schedule.stages, schedule.micro_batch, costs);
      structure_for(p.model, s, schedule, split, structure);
      price(c, structure, s, split, costs, scratch, timing);
      Layered x;
      x.schedule = schedule;
      for (std::int32_t i = 0; i < split.chunks(); ++i)
        cut(engine, c, s, static_cast<std::size_t>(i), split.first(i), split.last(i), std::int64_t{schedule.micro_batch} * s.dp,
            x);
      x.time(c);
      ASSERT_TRUE(x.structure == structure) << canonical_text(s, schedule);
      ASSERT_TRUE(x.timing == cost::test::rows_of(timing, structure)) << p.engine->name << " " << canonical_text(s, schedule);
      ++compared;
      ranges += static_cast<int>(x.strategies.size()) - split.chunks();
      ++schedules[static_cast<std::size_t>(schedule.kind)];
      ++zeros[static_cast<std::size_t>(s.zero)];
    }
  }
  EXPECT_GE(compared, 3000);
  EXPECT_GT(ranges, compared);  // a chunk of two ranges or more is the usual case
  for (const int seen : schedules) EXPECT_GT(seen, 50);
  for (const int seen : zeros) EXPECT_GT(seen, 50);
}

// The plan as a document gives the same result: its chunks define the ranges.
TEST(PriceLayers, OfADocument) {
  const Model model = model_of(mlp(), 6);
  const Training training = tokens(1000, 8);
  const Cluster cluster = round_cluster(4);
  const CostContext c(model, cluster, training, plain_engine("generic"));
  Strategy data, tensor;
  data.dp = 2;
  tensor.tp = 2;
  Schedule schedule;
  schedule.stages = 2;
  schedule.microbatches = 4;
  Plan plan = make_uniform_plan(model, cluster, training, "generic", data, schedule, SplitPolicy::balanced);
  plan.only_pipeline().stages[0].chunks[0].ranges = {{0, 1, data}, {2, 2, tensor}};
  plan.only_pipeline().stages[1].chunks[0].ranges = {{3, 5, tensor}};
  Program program = lower(plan, model, true);
  const Costs priced = price(c, plan, program);
  Layered x;
  x.schedule = schedule;
  x.add(c, 0, 0, 1, data, 2);
  x.add(c, 0, 2, 2, tensor, 2);
  x.add(c, 1, 3, 5, tensor, 2);
  x.time(c);
  EXPECT_TRUE(cost::test::rows_of(priced, program.structure()) == x.timing);
  EXPECT_TRUE(structure_of(plan.only_pipeline(), model) == x.structure);
}

// ---- shares of layers ---------------------------------------------------------------------------------------------

// A block alone in its chunk is its share: time, states, saved and transient bytes; a reduction without latency; an
// update without launches.
TEST(LayerShares, SmallestExample) {
  const Model model = model_of(mlp(), 1);
  const CostContext c(model, round_cluster(2), tokens(1000, 2), plain_engine("generic"));
  Strategy s;
  s.dp = 2;
  Layered x;
  x.add(c, 0, 0, 0, s, 2);
  x.time(c);
  std::vector<LayerShare> shares;
  layer_shares(c, s, 1, x.costs[0], shares);
  ASSERT_EQ(shares.size(), 1U);
  EXPECT_EQ(shares[0].forward_ns, kForward);
  EXPECT_EQ(shares[0].backward_ns, kBackward);
  EXPECT_LE(shares[0].reduce_ns, 4 * kElements);
  EXPECT_GE(shares[0].reduce_ns, 4 * kElements - 1);
  EXPECT_LE(shares[0].state_bytes, 18 * kElements);
  EXPECT_EQ(shares[0].saved_bytes, x.timing.chunks[0].saved_bytes);
  EXPECT_EQ(shares[0].transient_bytes,
            std::max(x.timing.chunks[0].forward_transient_bytes, x.timing.chunks[0].backward_transient_bytes));
  EXPECT_DOUBLE_EQ(update_s(c.device, shares[0].update_bytes) * 1e9, 34.0 * kElements / 1000.0);
  EXPECT_EQ(update_constant_s(c.device, *c.engine), 0.0);
  EXPECT_EQ(pass_constant_s(c.device, *c.engine), 0.0);
}

}  // namespace
}  // namespace espalier::cost::price_layers_test
