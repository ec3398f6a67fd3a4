// SPDX-License-Identifier: Apache-2.0
// Tests the baselines of plans on heterogeneous devices.
#include "planner/group_baselines.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/engine.h"
#include "planner/compute_split.h"
#include "planner/test_jobs.h"

namespace espalier::planner::group_baselines_test {
namespace {

const std::string kTraining = "{sequence_length: 1024, global_batch: 64, precision: fp16}";

Job mixed(const std::string& first, const std::string& second, const std::string& model = "gpt2", const std::string& more = "") {
  return test::job(model,
                   "{groups: [" + first + ", " + second + "], inter_group: {bandwidth: 100Gb/s, nics_per_node: 1, latency: 5us}}",
                   kTraining, more);
}
std::string nodes(int count, int devices, const std::string& device) {
  return "{nodes: " + std::to_string(count) + ", devices_per_node: " + std::to_string(devices) + ", device: " + device + "}";
}

const Alternative* called(const PlannerResult& result, const std::string& word) {
  for (const Alternative& a : result.alternatives)
    if (a.label.find(word) != std::string::npos) return &a;
  return nullptr;
}

// Rates 2 and 1 split 12 equal layers into 8 and 4.
TEST(SplitByRates, InProportion) {
  EXPECT_EQ(split_by_rates(std::vector<double>(12, 1.0), {2, 1}), (std::vector<std::int32_t>{0, 8}));
  // Rates 3, 1 and 1 split 10 layers into 6, 2 and 2.
  EXPECT_EQ(split_by_rates(std::vector<double>(10, 1.0), {3, 1, 1}), (std::vector<std::int32_t>{0, 6, 8}));
  // Layers of 1, 1 and 4 on equal rates: half of the work is 3. A sum of 2 is nearer to it than 6.
  EXPECT_EQ(split_by_rates({1, 1, 4}, {1, 1}), (std::vector<std::int32_t>{0, 2}));
}

TEST(SplitByRates, EveryStageHasALayer) {
  EXPECT_EQ(split_by_rates({1, 1, 1}, {1000, 1, 1}), (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(split_by_rates({1, 1, 1}, {1, 1, 1000}), (std::vector<std::int32_t>{0, 1, 2}));
}

// Nodes of four and of eight devices become nodes of four. The smaller memory is 16 GB, and the V100 is
// the slower kind.
TEST(GroupBaselines, AsTheSlowest) {
  const Job job = mixed(nodes(1, 4, "h100-sxm-80gb"), nodes(2, 8, "v100-sxm-16gb"));
  const Job equal = as_slowest(job, false);
  ASSERT_EQ(equal.cluster.groups.size(), 1U);
  EXPECT_EQ(equal.cluster.groups.front().nodes, 5);
  EXPECT_EQ(equal.cluster.groups.front().devices_per_node, 4);
  EXPECT_EQ(equal.cluster.groups.front().intra.back().span, 4);
  EXPECT_EQ(equal.cluster.groups.front().device.name, "v100-sxm-16gb");
  EXPECT_EQ(equal.cluster.usable_memory(), job.cluster.usable_memory(1));
  EXPECT_EQ(equal.cluster.inter.back().span, 20);
}

// A plan on heterogeneous devices names the rules that keep the usual engines from running it.
TEST(GroupBaselines, RulesThatKeepEnginesFromThePlanAreNamed) {
  const PlannerResult result = test::planned(mixed(nodes(1, 4, "a100-sxm-80gb"), nodes(1, 2, "v100-sxm-16gb")));
  ASSERT_TRUE(result.runs_on.has_value());
  const auto said = std::find_if(result.reasons.begin(), result.reasons.end(),
                                 [](const std::string& reason) { return reason.starts_with("Unlike devices: "); });
  ASSERT_NE(said, result.reasons.end());
  EXPECT_NE(said->find("megatron-core: MEG-"), std::string::npos) << *said;
}

// Two groups of 16 are two domains; 4 and 16 have only a node in common.
TEST(GroupBaselines, Domains) {
  const Job sites = mixed(nodes(2, 8, "a100-sxm-80gb"), nodes(2, 8, "a100-sxm-80gb"));
  EXPECT_EQ(as_slowest(sites, true).cluster.inter.size(), 2U);
  EXPECT_EQ(as_slowest(sites, true).cluster.inter.front().span, 16);
  EXPECT_EQ(as_slowest(sites, false).cluster.inter.size(), 1U);
  const Job odd = mixed(nodes(1, 4, "a100-sxm-80gb"), nodes(2, 8, "a100-sxm-80gb"));
  EXPECT_EQ(as_slowest(odd, true).cluster.inter.size(), 1U);
}

// A device at a tenth of its speed makes its kind the slowest.
TEST(GroupBaselines, ASlowDeviceSetsThePace) {
  const Job job =
      mixed(nodes(1, 4, "a100-sxm-80gb"), "{nodes: 1, devices_per_node: 4, device: h100-sxm-80gb, speed: {\"rank:5\": 0.1}}");
  const Job equal = as_slowest(job, false);
  EXPECT_DOUBLE_EQ(equal.cluster.groups.front().device.peak_of(Precision::fp16).count(),
                   0.1 * job.cluster.groups[1].device.peak_of(Precision::fp16).count());
}

// If every device must have work, a slow device joins the pipeline of its group: alone it cannot hold a pipeline.
TEST(GroupBaselines, ASlowDeviceMayShareAPipeline) {
  const Job job = mixed(nodes(8, 2, "l4"), "{nodes: 6, devices_per_node: 1, device: a100-sxm-40gb, speed: {\"rank:18\": 0.9}}",
                        "gpt2", "engine: generic\nsearch: {devices: all}\n");
  const PlannerResult result = test::planned(job);
  ASSERT_EQ(result.plan.pipelines.size(), 2U);
  EXPECT_LE(result.search.lower_bound_ns, result.prediction.iteration_ns);
}

// 12 A100s with 2.7 GiB each cannot hold a pipeline of all 48 samples, and no chain has 84 devices. So the search
// tries fewer samples for a group without a plan.
TEST(GroupBaselines, AGroupThatHoldsNoPlanAloneTakesFewerSamples) {
  const char* text =
      "model: {hidden: 1024, vocabulary: 32000, repeat: 1, blocks: [{heads: 16, ffn: 4096}, {heads: 16, kv_heads: 8, experts: 4, "
      "top_k: 2, ffn: 2048}]}\n"
      "cluster: {groups: [{nodes: 8, devices_per_node: 4, device: h200-sxm}, {nodes: 3, devices_per_node: 4, device: "
      "a100-sxm-40gb}, "
      "{nodes: 5, devices_per_node: 8, device: a10g, speed: {\"rank:64\": 0.9}}], inter_group: {bandwidth: 25Gb/s, latency: "
      "5us}, "
      "memory_limit: 3GiB}\n"
      "training: {sequence_length: 4096, global_batch: 48, precision: bf16}\nengine: generic\nsearch: {devices: all}\n";
  const auto job = load_job(text, "test", ".", {});
  ASSERT_TRUE(job.ok()) << job.error().message();
  EXPECT_EQ(test::planned(*job).plan.pipelines.size(), 3U);
}

// All four kinds of rows exist, though 12 devices are not whole nodes of eight. Each row uses every device of the
// cluster exactly once.
TEST(GroupBaselines, BesideAnAnswer) {
  const Job job = mixed(nodes(1, 4, "h100-sxm-80gb"), nodes(1, 8, "a100-sxm-40gb"));
  const PlannerResult result = test::planned(job);
  ASSERT_EQ(result.alternatives.size(), 5U);
  for (const char* word : {"equal split, limited by a100-sxm-40gb", "layers in proportion to compute",
                           "Megatron 3-D default, limited by a100-sxm-40gb"}) {
    const Alternative* row = called(result, word);
    ASSERT_NE(row, nullptr) << word;
    EXPECT_TRUE(row->fits) << word << ": " << row->lost_to;
    EXPECT_GE(row->iteration_ns, result.prediction.iteration_ns) << word;
    ASSERT_TRUE(row->plan.has_value()) << word;
    std::vector<bool> used(12, false);
    for (const Stage& stage : row->plan->only_pipeline().stages)
      for (const DeviceRange& range : stage.devices)
        for (std::int64_t n = 0; n < range.count; ++n) used.at(static_cast<std::size_t>(range.first + n * range.stride)) = true;
    EXPECT_EQ(std::count(used.begin(), used.end(), true), 12) << word;
    // Simulating the plan again on its devices confirms the row.
    const auto again = simulate(job, *row->plan);
    ASSERT_TRUE(again.ok()) << word << ": " << again.error().message();
    EXPECT_EQ(again->prediction.iteration_ns, row->iteration_ns) << word;
  }
}

// Any baseline whose stages each lie on one node group is a start of the search. On the first cluster, chains of
// stages of one or two devices were 10 % slower than layers in proportion to compute. On the second, 1f1b over a slow
// link was 30 % slower than zb-v.
TEST(GroupBaselines, NoAnswerIsSlower) {
  const Job unlike = test::job("gpt2-xl",
                               "{groups: [" + nodes(2, 4, "a100-sxm-80gb") + ", " + nodes(2, 1, "h100-sxm-80gb") +
                                   "], inter_group: {bandwidth: 100Gb/s, nics_per_node: 1, latency: 5us}}",
                               "{sequence_length: 1024, global_batch: 256, precision: fp16}");
  const Job slow_link = test::job("llama-3.2-1b",
                                  "{groups: [" + nodes(1, 1, "a100-sxm-80gb") + ", " + nodes(1, 1, "a100-sxm-80gb") +
                                      "], inter_group: {bandwidth: 10Gb/s, nics_per_node: 1, latency: 5us}}",
                                  "{sequence_length: 1024, global_batch: 256, precision: fp16}");
  for (const Job& job : {unlike, slow_link}) {
    const PlannerResult result = test::planned(job);
    for (const Alternative& row : result.alternatives) {
      if (row.fits) {
        EXPECT_GE(row.iteration_ns, result.prediction.iteration_ns) << row.label;
      }
    }
    EXPECT_LE(result.search.lower_bound_ns, result.prediction.iteration_ns);
  }
}

// The job's pins also hold for the starts.
TEST(GroupBaselines, StartsKeepTheSearchPart) {
  const Job job =
      mixed(nodes(1, 4, "h100-sxm-80gb"), nodes(1, 8, "a100-sxm-40gb"), "gpt2", "search: {fix: {micro_batch: 2, pp: 3}}");
  const std::vector<ClusterBaseline> whole = whole_cluster_plans(job, *find_engine("generic"), 1, {});
  ASSERT_EQ(whole.size(), 3U);
  const std::vector<Pipeline> starts = starts_of(job, whole);
  EXPECT_FALSE(starts.empty());
  for (const Pipeline& p : starts) {
    EXPECT_EQ(p.stages.size(), 3U);
    EXPECT_EQ(p.schedule.micro_batch, 2);
  }
}

// An H100 computes 989/312 = 3.17 times as much as an A100. With the same number of devices of each kind, its stages
// hold about that many times the layers.
TEST(GroupBaselines, LayersInProportion) {
  const Job job = mixed(nodes(1, 8, "h100-sxm-80gb"), nodes(1, 8, "a100-sxm-80gb"), "llama-2-7b");
  const std::vector<RecomputeLadder> family = compute_splits(job, as_slowest(job, false), *find_engine("generic"));
  ASSERT_FALSE(family.empty());
  bool seen = false;
  for (const RecomputeLadder& ladder : family) {
    const std::vector<Stage>& stages = ladder.front().only_pipeline().stages;
    if (stages.size() != 2) continue;
    seen = true;
    const bool fast_first = stages[0].devices.front().first < 8;
    const Chunk &fast = stages[fast_first ? 0 : 1].chunks.front(), &slow = stages[fast_first ? 1 : 0].chunks.front();
    // There are 32 blocks and the head, which has about half the FLOPs of a block here: 0.76 of 32.5 is 24.7.
    EXPECT_NEAR(fast.last() - fast.first() + 1, 25, 1);
    EXPECT_EQ(fast.last() - fast.first() + 1 + slow.last() - slow.first() + 1, 34);
  }
  EXPECT_TRUE(seen);
}

// Three layers and an odd number of devices: stages of one device each do not work, nor does any larger size that
// both kinds fill.
TEST(GroupBaselines, NoEqualStages) {
  const Job job = mixed(nodes(1, 3, "a100-sxm-80gb"), nodes(1, 16, "a100-sxm-40gb"));
  EXPECT_TRUE(compute_splits(job, as_slowest(job, false), *find_engine("generic")).empty());
  const PlannerResult result = test::planned(job);
  const Alternative* row = called(result, "layers in proportion");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->lost_to, "no equal stages fill every group");
}

// Full recomputation of a uniform plan names the number of blocks of its fullest stage: 12 blocks in 5 stages, 3 and
// 2. The plan can be simulated as written.
TEST(GroupBaselines, FullRecomputationOfUnevenStages) {
  const Job job = mixed(nodes(1, 4, "a100-sxm-80gb"), nodes(1, 1, "a100-sxm-40gb"));
  Strategy s;
  s.recompute = {RecomputeKind::full, 3};
  Schedule schedule;
  schedule.stages = 5;
  schedule.microbatches = 64;
  const auto given = estimate(job, s, schedule);
  ASSERT_TRUE(given.ok()) << given.error().message();
  const auto again = simulate(job, given->plan);
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(again->prediction.iteration_ns, given->prediction.iteration_ns);
}

// Five devices divide 25 of 32 samples among them and the other two take 7. A proportional share of 23 would use only
// one or four of the five.
TEST(GroupBaselines, SharesThatAllDevicesOfAGroupDivide) {
  const Job one =
      load_job(
          "model: {model_type: llama, hidden_size: 512, intermediate_size: 1024, num_hidden_layers: 5, "
          "num_attention_heads: 8, num_key_value_heads: 2, vocab_size: 32000, tie_word_embeddings: true}\n"
          "cluster: {groups: [{name: a, nodes: 2, devices_per_node: 1, device: v100-sxm-16gb, inter_node: {bandwidth: "
          "400Gb/s, nics_per_node: 1, latency: 2us}}, {name: b, nodes: 5, devices_per_node: 1, device: v100-sxm-32gb, "
          "inter_node: {bandwidth: 100Gb/s, nics_per_node: 2, latency: 20us}}], inter_group: {bandwidth: 200Gb/s, "
          "latency: 50us}}\n"
          "training: {sequence_length: 2048, global_batch: 32, precision: fp16}\n",
          "test", ".", {})
          .value();
  const PlannerResult result = test::planned(one);
  ASSERT_EQ(result.plan.pipelines.size(), 2u);
  EXPECT_EQ(result.plan.pipelines[1].samples, 25);
  EXPECT_EQ(result.plan.pipelines[1].strategy().dp, 5);
}

}  // namespace
}  // namespace espalier::planner::group_baselines_test
