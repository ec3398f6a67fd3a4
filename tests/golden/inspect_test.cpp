// SPDX-License-Identifier: Apache-2.0
// Compares the output of `inspect` for two models and a cluster, and `brief` and `explain` of a handmade result.
#include "espalier/inspect.h"
#include "data/source_dir.h"
#include "espalier/cluster.h"
#include "espalier/compare.h"
#include "espalier/explain.h"
#include "espalier/model.h"
#include "golden.h"
#include "planner/phase_testing.h"

namespace espalier {
namespace {

void inspect_model_file(const std::string& name) {
  const auto model = load_model_file(ESPALIER_SOURCE_DIR "/models/" + name + "/config.json");
  ASSERT_TRUE(model) << model.error().message();
  golden::expect_golden("inspect_" + name + ".txt", report::inspect_model(*model));
}

TEST(Golden, InspectGpt2) { inspect_model_file("gpt2"); }
TEST(Golden, InspectMixtral) { inspect_model_file("mixtral-8x7b"); }

TEST(Golden, InspectCluster) {
  const auto cluster =
      load_cluster("{nodes: 2, devices_per_node: 4, device: a100-sxm-80gb, memory_limit: 60GiB}", "cluster.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message();
  golden::expect_golden("inspect_cluster.txt", report::inspect_cluster(*cluster));
}

TEST(Golden, InspectMixedCluster) {
  const auto cluster = load_cluster_file(ESPALIER_SOURCE_DIR "/examples/clusters/two-sites.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message();
  golden::expect_golden("inspect_mixed_cluster.txt",
                        report::inspect_cluster(*cluster) + report::inspect_cluster_json(*cluster) + "\n");
}

/// Uses round figures, so that the text can be checked against them.
PlannerResult by_hand() {
  PlannerResult r;
  r.plan.model_name = "toy";
  r.plan.cluster_summary = "2 × 8 h100-sxm-80gb";
  r.plan.training.sequence.main = 4096;
  r.plan.training.global_batch = 64;
  r.plan.only_pipeline().schedule = {ScheduleKind::one_f_one_b, 4, 1, 16, 1};
  Strategy s;
  s.tp = 2;
  s.sp = SequenceParallel::megatron;
  s.dp = 2;
  s.zero = ZeroStage::optimizer;
  s.shard = 2;
  for (std::int32_t i = 0; i < 4; ++i)
    r.plan.only_pipeline().stages.push_back({{{4 * i, 4, 1}}, {Chunk{{{4 * i, 4 * i + 3, s}}}}});
  Prediction& p = r.prediction;
  p.iteration_ns = 5'000'000'000;
  p.breakdown = {4'000'000'000, 500'000'000, 400'000'000, 80'000'000, 20'000'000};
  p.hidden_communication_ns = 900'000'000;
  p.tokens_per_s_per_device = 3276.8;
  p.model_tflops_per_device = 400;
  p.mfu = 0.4;
  p.mfu_peak_tflops = 989.4;
  p.peak_memory_bytes_per_stage = {64LL << 30, 60LL << 30, 60LL << 30, 50LL << 30};
  p.peak_memory_bytes = 64LL << 30;
  p.memory = {10LL << 30, 10LL << 30, 10LL << 30, 30LL << 30, 2LL << 30, 2LL << 30};
  p.memory_limit_bytes = 78LL << 30;
  p.fits = true;
  p.confidence = {4.0, 7.0, 0.8, "uncalibrated: priors of h100-sxm-80gb"};
  p.days = 12.5;
  p.device_hours = 4800;
  r.search = {12345,
              {{"pp", {{1, 345}, {4, 12000}}}, {"schedule", {{1, 12345}}}},
              12000,
              12,
              {{"bound", 3000}, {"memory", 9000}},
              true,
              5'000'000'000,
              0,
              SearchEnd::optimal,
              SpaceKind::uniform};
  r.alternatives = {{"DDP", true, false, 0, 150LL << 30, "needs 150.0 GiB of 78.0 GiB", std::nullopt},
                    {"TP4 PP4 DP1", false, true, 5'300'000'000, 40LL << 30, "exposed communication +0.200 s", std::nullopt}};
  r.reasons = {"The step is bound by compute (80.0 %)."};
  return r;
}

/// Adds layers with their own strategies: the first stage is short of memory, the two in the middle are alike.
PlannerResult layerwise_by_hand() {
  PlannerResult r = by_hand();
  r.plan.only_pipeline().schedule = {ScheduleKind::one_f_one_b, 4, 1, 16, 2};
  Strategy lean;  // ZeRO-3 and recomputation of every block
  lean.tp = 2;
  lean.dp = 2;
  lean.zero = ZeroStage::parameters;
  lean.shard = 2;
  lean.recompute = {RecomputeKind::full, 3};
  lean.overlap.p2p = true;
  Strategy plain = lean;
  plain.zero = ZeroStage::none;
  plain.shard = 1;
  plain.recompute = {};
  Strategy wide = plain;
  wide.tp = 4;
  wide.sp = SequenceParallel::megatron;
  wide.dp = 1;
  r.plan.only_pipeline().stages = {{{{0, 4, 1}}, {Chunk{{{0, 3, lean}, {4, 4, plain}}}}},
                                   {{{4, 4, 1}}, {Chunk{{{5, 8, plain}}}}},
                                   {{{8, 4, 1}}, {Chunk{{{9, 12, plain}}}}},
                                   {{{12, 4, 1}}, {Chunk{{{13, 14, plain}, {15, 15, wide}}}}}};
  r.search.space = SpaceKind::layerwise;
  r.search.optimal = false;
  r.search.reason = SearchEnd::gap;
  r.search.gap = 0.02;
  r.search.lower_bound_ns = 4'900'000'000;
  r.search.phases = planner::test::layer_phases(5'500'000'000, 3000, 1000, 20, 12);
  r.search.balance = {{"even", {0, 4, 8, 12}, 0.70, 0.71, 0},
                      {"time-balanced", {0, 5, 9, 12}, 0.75, 0.71, 5'100'000'000},
                      {"exact", {0, 5, 9, 13}, 0.74, 0.72, 5'000'000'000}};
  const Plan uniform = by_hand().plan;
  r.alternatives.back().iteration_ns = 5'600'000'000;
  r.alternatives.insert(r.alternatives.begin() + 1,
                        {"best uniform plan", true, true, 5'500'000'000, 60LL << 30, "compute +0.400 s", uniform});
  return r;
}

TEST(Golden, BriefOfALayerwisePlan) { golden::expect_golden("brief_layerwise.txt", layerwise_by_hand().brief()); }
TEST(Golden, ExplainOfALayerwisePlan) { golden::expect_golden("explain_layerwise.txt", report::explain(layerwise_by_hand())); }
TEST(Golden, CompareALayerwisePlan) {
  golden::expect_golden("compare_layerwise.txt",
                        report::compare({{"uniform.json", by_hand()}, {"layers.json", layerwise_by_hand()}}));
}
TEST(Golden, Screen) { golden::expect_golden("screen.txt", by_hand().screen(80)); }
TEST(Golden, ScreenOfALayerwisePlan) { golden::expect_golden("screen_layerwise.txt", layerwise_by_hand().screen(80)); }
TEST(Golden, Brief) { golden::expect_golden("brief.txt", by_hand().brief()); }
TEST(Golden, Explain) { golden::expect_golden("explain.txt", report::explain(by_hand())); }

}  // namespace
}  // namespace espalier
