// SPDX-License-Identifier: Apache-2.0
#include "cost/cluster_costs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/format.h"
#include "cost/plan_testing.h"
#include "espalier/cluster.h"
#include "espalier/model.h"
#include "plan/engine.h"
#include "sim/simulator.h"

namespace espalier::cost {
namespace {

constexpr const char* kLlama =
    R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16,
  "num_key_value_heads": 8, "num_hidden_layers": 8, "vocab_size": 32000, "max_position_embeddings": 2048})";

struct Fixture {
  Model model = load_model(kLlama, "test").value();
  Training training;
  const EngineModel& engine = *find_engine("generic");
  Fixture() {
    training.sequence.main = 1024;
    training.global_batch = 32;
  }
};

Strategy strategy(std::int32_t tp, std::int32_t dp) {
  Strategy s;
  s.tp = tp;
  s.dp = dp;
  return s;
}

/// Returns a pipeline on consecutive devices: stage i has the i-th strategy and the layers up to `ends[i]`.
Pipeline pipeline(std::int32_t id, std::int64_t device, const std::vector<Strategy>& strategies,
                  const std::vector<std::int32_t>& ends, std::int32_t micro_batch, std::int32_t microbatches) {
  Pipeline p;
  p.id = id;
  p.schedule.stages = static_cast<std::int32_t>(strategies.size());
  p.schedule.micro_batch = micro_batch;
  p.schedule.microbatches = microbatches;
  p.samples = std::int64_t{micro_batch} * strategies.front().dp * microbatches;
  std::int32_t first = 0;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    Stage stage;
    const std::int64_t count = std::int64_t{strategies[i].tp} * strategies[i].dp;
    stage.devices = {{device, count, 1}};
    device += count;
    stage.chunks.resize(1);
    stage.chunks[0].ranges = {{first, ends[i], strategies[i]}};
    first = ends[i] + 1;
    p.stages.push_back(stage);
  }
  return p;
}

Plan plan_of(const Fixture& f, std::vector<Pipeline> pipelines) {
  Plan plan;
  plan.training = f.training;
  plan.pipelines = std::move(pipelines);
  return plan;
}

TEST(ClusterCosts, EqualDevicesCostWhatTheyCostAlone) {
  const Fixture f;
  const Cluster cluster = load_cluster("{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb}", "test").value();
  const Plan plan = plan_of(f, {pipeline(0, 0, {strategy(2, 4), strategy(2, 4)}, {4, 9}, 2, 4)});
  ASSERT_TRUE(validate(plan).ok());
  const CostContext context(f.model, cluster, f.training, f.engine);
  const ClusterCosts unlike(f.model, cluster, f.training, f.engine);
  Program a = lower(plan, f.model, true), b;
  const Costs expected = price(context, plan, a), found = price(unlike, plan, b);
  EXPECT_EQ(expected, found);
  EXPECT_EQ(a.instructions.size(), b.instructions.size());
}

/// A stage on a slower kind takes longer, and the message between kinds has the bandwidth of the link between them.
TEST(ClusterCosts, AStageCostsWhatItsOwnDevicesTake) {
  const Fixture f;
  const Cluster mixed =
      load_cluster(
          "{groups: [{nodes: 1, devices_per_node: 8, device: a100-sxm-80gb}, {nodes: 1, devices_per_node: 8, device: "
          "v100-sxm-32gb}], inter_group: {bandwidth: 10Gb/s, latency: 50us}}",
          "test")
          .value();
  Fixture fp16 = f;
  fp16.training.precision = Precision::fp16;
  const Plan plan = plan_of(fp16, {pipeline(0, 0, {strategy(2, 4), strategy(2, 4)}, {4, 9}, 2, 4)});
  const ClusterCosts costs(fp16.model, mixed, fp16.training, fp16.engine);
  Program program;
  const Costs c = price(costs, plan, program);
  const ProgramStructure& s = program.structure();
  EXPECT_GT(c.works[s.forward(ChunkId(1))].time.compute_ns, c.works[s.forward(ChunkId(0))].time.compute_ns);
  const FabricLevel link = costs.link(costs.place(plan.pipelines[0].stages[0]), costs.place(plan.pipelines[0].stages[1]));
  // 2 samples × 1,024 tokens × 1,024 features × 2 bytes = 4 MiB a rank, over 10 Gb/s / 8 devices of a node.
  EXPECT_EQ(program.transfers[s.transfer(ChunkId(1), false)].bytes, 4 << 20);
  EXPECT_NEAR(static_cast<double>(c.transfers[s.transfer(ChunkId(1), false)].count()) * 1e-9,
              4194304.0 / (10e9 / 8 / 8 * link.efficiency) + link.latency.count() + link.start.count(), 2e-5);
}

/// Compute that overlaps with collectives slows down as on a cluster of the stage's own kind.
TEST(ClusterCosts, AStageSlowsDownAsItsOwnKindDoes) {
  Fixture f;
  f.training.precision = Precision::fp16;
  const std::string a100 = "{nodes: 1, devices_per_node: 8, device: a100-sxm-80gb}";
  const std::string v100 = "{nodes: 1, devices_per_node: 8, device: v100-sxm-32gb}";
  Strategy both = strategy(2, 4);
  both.zero = ZeroStage::optimizer;
  both.shard = 4;
  both.overlap.grad_reduce = both.overlap.param_gather = true;
  const Plan plan = plan_of(f, {pipeline(0, 0, {both, both}, {4, 9}, 2, 4)});
  const auto slowdowns = [&](const std::string& first, const std::string& second) {
    const Cluster cluster =
        load_cluster("{groups: [" + first + ", " + second + "], inter_group: {bandwidth: 10Gb/s, latency: 50us}}", "test")
            .value();
    Program program;
    const Costs costs = price(ClusterCosts(f.model, cluster, f.training, f.engine), plan, program);
    const ProgramStructure& s = program.structure();
    return std::pair(costs.slowdowns[s.grad_reduce(ChunkId(0))], costs.slowdowns[s.grad_reduce(ChunkId(1))]);
  };
  const auto mixed = slowdowns(a100, v100), fast = slowdowns(a100, a100), slow = slowdowns(v100, v100);
  EXPECT_EQ(mixed.first, fast.first);
  EXPECT_EQ(mixed.second, slow.second);
  EXPECT_GT(std::abs(mixed.first.compute - mixed.second.compute), 0.01);
}

/// A tied head on another stage than the embedding holds a copy of the table. Between pipelines it is reduced like
/// the matrix of an untied head. Otherwise the copy would follow the gradients of its own pipeline alone.
TEST(ClusterCosts, ACopyOfATiedTableMeetsTheOtherPipelines) {
  const Cluster cluster = load_cluster("{nodes: 2, devices_per_node: 4, device: a100-sxm-80gb}", "test").value();
  std::vector<double> bytes;
  for (const bool tied : {false, true}) {
    Fixture f;
    f.model = load_model(base::cat(std::string(kLlama).substr(0, std::string(kLlama).size() - 1),
                                   ", \"tie_word_embeddings\": ", tied ? "true}" : "false}"),
                         "test")
                  .value();
    const Plan plan =
        plan_of(f, {pipeline(0, 0, {strategy(1, 2), strategy(1, 2)}, {4, 9}, 2, 4), pipeline(1, 4, {strategy(1, 4)}, {9}, 1, 4)});
    const ClusterCosts costs(f.model, cluster, f.training, f.engine);
    Program program;
    price(costs, plan, program);
    for (const Collective& c : program.collectives)
      if (c.pipelines.valid() && c.layers.last == 9)
        bytes.push_back(program.parts[static_cast<std::size_t>(c.parts_begin)].bytes);
  }
  ASSERT_EQ(bytes.size(), 2U);
  EXPECT_EQ(bytes[0], bytes[1]);
}

/// With one device at half its speed, the stage that holds it computes twice as long, and no other does.
TEST(ClusterCosts, AStageIsAsFastAsItsSlowestDevice) {
  const Fixture f;
  const Cluster even = load_cluster("{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb}", "test").value();
  const Cluster slow =
      load_cluster("{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb, speed: {\"rank:11\": 0.5}}", "test").value();
  const Plan plan = plan_of(f, {pipeline(0, 0, {strategy(2, 4), strategy(2, 4)}, {4, 9}, 2, 4)});
  EXPECT_FALSE(on_unlike_devices(plan, even));
  EXPECT_TRUE(on_unlike_devices(plan, slow));
  Program a, b;
  const ClusterCosts of_even(f.model, even, f.training, f.engine), of_slow(f.model, slow, f.training, f.engine);
  const Costs usual = price(of_even, plan, a), found = price(of_slow, plan, b);
  const ProgramStructure& s = a.structure();
  EXPECT_EQ(found.works[s.forward(ChunkId(0))], usual.works[s.forward(ChunkId(0))]);
  for (const WorkId work : {s.forward(ChunkId(1)), s.backward(ChunkId(1))}) {
    const PhaseTime& at_half = found.works[work].time;
    EXPECT_NEAR(static_cast<double>(at_half.compute_ns), 2.0 * static_cast<double>(usual.works[work].time.compute_ns),
                // Each of at most six layers is rounded by half a nanosecond, which counts twice in the usual time.
                1.5 * 6);
  }
  EXPECT_EQ(found.collectives, usual.collectives);
}

/// Pipelines of one and of two stages reduce three segments of gradients together. The step ends when the slower
/// pipeline has reduced.
TEST(ClusterCosts, UnlikePipelinesMeetByLayer) {
  const Fixture f;
  const Cluster cluster = load_cluster("{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb}", "test").value();
  const Plan plan =
      plan_of(f, {pipeline(0, 0, {strategy(2, 4)}, {9}, 1, 4), pipeline(1, 8, {strategy(4, 1), strategy(2, 2)}, {5, 9}, 2, 8)});
  ASSERT_TRUE(validate(plan).ok()) << validate(plan).error().found;
  const ClusterCosts costs(f.model, cluster, f.training, f.engine);
  Program program;
  const Costs c = price(costs, plan, program);
  ASSERT_TRUE(validate(program).ok()) << validate(program).error().found;
  ASSERT_EQ(program.pipelines.size(), 2U);
  EXPECT_EQ(program.ranks.size(), 3U);
  const std::size_t own =
      static_cast<std::size_t>(program.pipelines[0].structure.collectives() + program.pipelines[1].structure.collectives());
  ASSERT_EQ(program.collectives.size(), own + 2);
  EXPECT_EQ(program.collectives[CollectiveId(static_cast<std::int32_t>(own))].layers, (LayerSpan{6, 9}));
  EXPECT_EQ(program.collectives[CollectiveId(static_cast<std::int32_t>(own) + 1)].layers, (LayerSpan{0, 5}));
  const auto simulation = sim::Simulator().run(program, c, {true});
  ASSERT_TRUE(simulation) << simulation.error().found;
  // Reductions between pipelines start together and end together on every rank that takes part.
  std::int64_t end = -1;
  for (const RankClass& rank : program.ranks)
    for (std::int32_t i = rank.begin; i < rank.end; ++i) {
      const Instruction& x = program.instructions[static_cast<std::size_t>(i)];
      if (x.stream != Stream::data || x.id != static_cast<std::int32_t>(own)) continue;
      if (end < 0) end = simulation->spans[static_cast<std::size_t>(i)].end_ns;
      EXPECT_EQ(end, simulation->spans[static_cast<std::size_t>(i)].end_ns);
    }
  EXPECT_GT(end, 0);
}

}  // namespace
}  // namespace espalier::cost
