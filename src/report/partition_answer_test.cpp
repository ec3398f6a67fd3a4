// SPDX-License-Identifier: Apache-2.0
// Tests plans whose operators are partitioned one by one: searched, priced, simulated, checked, written and read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "check/check.h"
#include "data/source_dir.h"
#include "espalier/planner.h"
#include "planner/plan_claims.h"
#include "planner/prediction.h"

namespace espalier::report::partition_answer_test {
namespace {

using testing::HasSubstr;

/// Returns six wide blocks on eight nodes of four devices with a slow network, so that tensor parallelism has to
/// leave the node.
Job job(const std::string& space, const std::string& more = "", const std::string& calibration = "") {
  const std::string root = ESPALIER_SOURCE_DIR;
  auto loaded = load_job("model: " + root +
                             "/examples/models/opt-175b-6-blocks.json\n"
                             "cluster: {nodes: 8, devices_per_node: 4, device: v100-sxm-32gb, "
                             "inter_node: {bandwidth: 100Gb/s, nics_per_node: 1}}\n"
                             "training: {sequence_length: 2048, global_batch: 8, precision: fp16}\n"
                             "search: {space: " +
                             space + ", fix: {pp: 1" + more + "}}\n" + calibration,
                         "test", ".", {});
  EXPECT_TRUE(loaded.ok()) << (loaded ? "" : loaded.error().message());
  return loaded ? *loaded : Job{};
}

PlannerResult planned(const Job& job) {
  auto result = plan(job, {});
  EXPECT_TRUE(result.ok()) << (result ? "" : result.error().message());
  return result ? *result : PlannerResult{};
}

// With these coefficients the host launches the blocks of tp 16 more slowly than they run. The waits of ZeRO 3 then
// fill the gaps. A bound taken from the layers of another ZeRO stage is 0.14 ms above the simulated step, and the
// search would stop at it.
TEST(PartitionedBounds, AreThoseOfTheirOwnZeroStage) {
  const std::string calibration =
      "calibration:\n  schema: espalier.calibration/1\n  device: v100-sxm-32gb\n  engine: generic\n"
      "  coefficients: {exposed_share: 0, compute: 0.9, elementwise: 1.0697, launch: 1.0975, tensor_communication: 1.1309, "
      "data_communication: 1.0884, step_s: 0.022845}\n";
  const PlannerResult result = planned(job("full", "", calibration));
  EXPECT_GT(result.prediction.iteration_ns, 0);
}

class Partitioned : public testing::Test {
 protected:
  static void SetUpTestSuite() { full() = planned(job("full")); }
  static PlannerResult& full() {
    static PlannerResult result;
    return result;
  }
};

TEST_F(Partitioned, FullBeatsEveryOtherSpace) {
  const std::int64_t uniform = planned(job("uniform")).prediction.iteration_ns;
  const std::int64_t layerwise = planned(job("layerwise")).prediction.iteration_ns;
  const std::int64_t spatial_temporal = planned(job("spatial_temporal")).prediction.iteration_ns;
  const std::int64_t all = full().prediction.iteration_ns;
  EXPECT_LE(layerwise, uniform);
  EXPECT_LT(spatial_temporal, uniform);
  EXPECT_LE(all, spatial_temporal);
  EXPECT_LT(all, layerwise);
}

TEST_F(Partitioned, CertificateNamesTheGap) {
  const SearchSummary& s = full().search;
  EXPECT_EQ(s.space, SpaceKind::full);
  const PhaseSummary* operators = s.counted(SearchCounter::partitions);
  ASSERT_NE(operators, nullptr);
  EXPECT_EQ(operators->name, kOperatorsPhase);
  EXPECT_GT(count_of(operators->counters, SearchCounter::partitions), 0);
  EXPECT_GT(count_of(operators->counters, SearchCounter::operator_searches), 0);
  EXPECT_EQ(count_of(operators->counters, SearchCounter::inexact_searches), 0);
  EXPECT_GT(best_without_partitions_ns(s), full().prediction.iteration_ns);
  EXPECT_LE(s.lower_bound_ns, s.phases.back().partition_bound_ns);
  EXPECT_LE(s.lower_bound_ns, full().prediction.iteration_ns);
  EXPECT_EQ(s.reason, s.optimal ? SearchEnd::optimal : SearchEnd::gap);
}

TEST_F(Partitioned, TheAnswerSaysWhatEachOperatorDoes) {
  ASSERT_EQ(full().operators.size(), 10U);
  EXPECT_EQ(full().operators[1].name, "attn.qkv");
  EXPECT_GT(full().operators[1].compute_ns, 0);
  const std::string brief = full().brief();
  EXPECT_THAT(brief, HasSubstr("Operators of a block over"));
  EXPECT_THAT(brief, HasSubstr("× faster than the best plan without operator partitions"));
  EXPECT_THAT(brief, HasSubstr("attn.qkv"));
}

TEST_F(Partitioned, WrittenReadAndSimulatedAgain) {
  PlannerResult answer = full();
  answer.alternatives.clear();  // their labels are for readers only
  const std::string text = to_json(answer, false);
  const auto back = result_from_json(text, "result.json");
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(back->plan, full().plan);
  EXPECT_EQ(to_json(*back, false), text);
  const auto again = simulate(job("full"), back->plan);
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(again->prediction.iteration_ns, full().prediction.iteration_ns);
  const auto timeline = block_timeline(job("full"), back->plan);
  ASSERT_TRUE(timeline.ok());
  EXPECT_THAT(*timeline, HasSubstr("traceEvents"));
}

TEST_F(Partitioned, TheCheckerCountsAgain) {
  const Job one = job("full");
  const auto claims = planner::claims_of(one, full().plan);
  ASSERT_TRUE(claims.ok());
  const auto check = [&](const Plan& p, const check::Claims& c) {
    return check::check_plan(p, one.model, one.cluster, lower(p, one.model, true), &c);
  };
  EXPECT_TRUE(check(full().plan, *claims).ok());
  check::Claims less = *claims;
  for (std::int64_t& bytes : less.static_bytes_per_stage) bytes -= 16;
  EXPECT_FALSE(check(full().plan, less).ok());
  less = *claims;
  for (std::int64_t& bytes : less.saved_bytes_per_chunk) bytes = bytes * 9 / 10;
  EXPECT_FALSE(check(full().plan, less).ok());
  Plan other = full().plan;
  for (Stage& stage : other.only_pipeline().stages)
    for (Chunk& chunk : stage.chunks)
      for (LayerRange& range : chunk.ranges) {
        std::string text = range.strategy.partition.text();
        if (text.empty()) continue;
        text.replace(text.find("attn.core H"), 11, "attn.core L");
        range.strategy.partition = BlockPartition(text);
      }
  EXPECT_FALSE(check(other, *claims).ok());
  EXPECT_FALSE(simulate(one, other).ok());
}

/// Messages between the stages of a partitioned pipeline are tiles.
TEST(PartitionedPipeline, IsTimedAndChecked) {
  const std::string root = ESPALIER_SOURCE_DIR;
  auto loaded =
      load_job("model: " + root +
                   "/models/tiny-llama-test/config.json\ncluster: {nodes: 2, devices_per_node: 4, device: h100-sxm-80gb}\n"
                   "training: {sequence_length: 512, global_batch: 8}\n",
               "test", ".", {});
  ASSERT_TRUE(loaded.ok());
  Strategy s;
  s.tp = 4;
  std::string text =
      "attn.norm M,M; attn.qkv K,K; attn.core H,H; attn.out P2; attn.residual M,M; mlp.norm M,M; mlp.gate_up P2; mlp.activation "
      "N,N; "
      "mlp.down N,N; mlp.residual M,M";
  s.partition = BlockPartition(text);
  const Schedule schedule{ScheduleKind::one_f_one_b, 2, 1, 8, 1};
  const auto result = estimate(*loaded, s, schedule);
  ASSERT_TRUE(result.ok()) << result.error().message();
  const auto claims = planner::claims_of(*loaded, result->plan);
  ASSERT_TRUE(claims.ok());
  const auto report =
      check::check_plan(result->plan, loaded->model, loaded->cluster, lower(result->plan, loaded->model, true), &*claims);
  for (const auto& finding : report.findings) EXPECT_TRUE(finding.ok) << finding.name << ": " << finding.text;
  text.replace(text.find("mlp.norm M,M"), 12, "mlp.norm K,K");
  s.partition = BlockPartition(text);
  EXPECT_FALSE(estimate(*loaded, s, schedule).ok());
}

}  // namespace
}  // namespace espalier::report::partition_answer_test
