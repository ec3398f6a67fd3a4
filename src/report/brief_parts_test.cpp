// SPDX-License-Identifier: Apache-2.0
// Tests parts of the answer's text: bars, broken lines, equal stages, partitions in words, phases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/invariant.h"
#include "espalier/text.h"
#include "report/brief_layers.h"
#include "report/brief_text.h"
#include "report/operator_text.h"
#include "report/phase_text.h"

namespace espalier::report {
namespace {

using testing::HasSubstr;

TEST(Bar, OneBlockForWhatIsVisibleAtAll) {
  EXPECT_EQ(bar(1, 4), "████");
  EXPECT_EQ(bar(0.5, 4), "██");
  EXPECT_EQ(bar(0.006, 10), "█");
  EXPECT_EQ(bar(0.004, 10), "");
  EXPECT_EQ(bar(7, 2), "██");
  EXPECT_EQ(bar(-1, 2), "");
}

TEST(Table, EveryRowHasACellBelowEveryHeader) {
  EXPECT_NE(table({{"a", "b"}, {"1", "2"}}, {1}), "");
  EXPECT_THROW((void)table({{"a", "b"}, {"1"}}), base::InternalError);
  EXPECT_THROW((void)table({{"a", "b"}}, {2}), base::InternalError);
  EXPECT_THROW((void)table({}), base::InternalError);
  EXPECT_THROW((void)bar(std::nan(""), 4), base::InternalError);
  EXPECT_THROW((void)wrap("a", 2, "  "), base::InternalError);
}

TEST(Wrap, BreaksAtSpacesAndIndentsLaterLines) {
  EXPECT_EQ(lay_out(wrap("aa bb cc", 5, "  "), 0), "aa bb\n  cc");
  EXPECT_EQ(lay_out(wrap("aa bb", 5, "  "), 0), "aa bb");
  EXPECT_EQ(lay_out(wrap("abcdefgh ij", 5, " "), 0), "abcdefgh\n ij");
  EXPECT_EQ(wrap("", 5, "  "), "");
}

Stage stage(std::vector<std::pair<std::int32_t, std::int32_t>> chunks) {
  Stage out;
  for (const auto& [first, last] : chunks) out.chunks.push_back(Chunk{{LayerRange{first, last, Strategy{}}}});
  return out;
}

// There are ten layers: 0 is the embedding, 9 the head.
TEST(StageRuns, EqualNeighboursAreOneLine) {
  Plan plan;
  plan.only_pipeline().stages = {stage({{0, 2}}), stage({{3, 4}}), stage({{5, 6}}), stage({{7, 9}})};
  const std::vector<StageRun> runs = stage_runs(plan.only_pipeline(), {10, 30, 20, 5});
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].layers, "embedding + 2 blocks");
  EXPECT_EQ(runs[1].layers, "2 blocks");
  EXPECT_EQ(runs[1].first, 1);
  EXPECT_EQ(runs[1].last, 2);
  EXPECT_EQ(runs[1].peak_bytes, 30);
  EXPECT_EQ(runs[2].layers, "2 blocks + head");
  EXPECT_EQ(runs[2].peak_bytes, 5);
}

TEST(StageRuns, ChunksOfAStageAndOneBlock) {
  Plan plan;
  plan.only_pipeline().stages = {stage({{0, 1}, {4, 5}}), stage({{2, 3}, {6, 7}})};
  const std::vector<StageRun> runs = stage_runs(plan.only_pipeline(), {});
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].layers, "embedding + 1 block | 2 blocks");
  EXPECT_EQ(runs[1].layers, "2 blocks | 1 block + head");
  EXPECT_EQ(runs[0].peak_bytes, 0);
}

OperatorReport partitioned(const char* sequence) {
  OperatorReport r;
  r.sequence = sequence;
  return r;
}

TEST(PartitionMeaning, InWords) {
  EXPECT_EQ(partition_meaning(partitioned("K,K,P2,R")), "1/4 of the features out, tiles on rings of 2, 2 identical copies");
  EXPECT_EQ(partition_meaning(partitioned("B,M")), "1/2 of the samples, 1/2 of the tokens");
  EXPECT_EQ(partition_meaning(partitioned("N,H,L")), "1/2 of the features in, 1/2 of the heads, 1/2 of the keys");
  EXPECT_EQ(partition_meaning(partitioned("")), "");
}

TEST(PhasesText, OneRowAPhase) {
  SearchSummary s;
  EXPECT_EQ(phases_text(s), "");
  const auto counters = [](std::int64_t bounded, std::int64_t lowered, std::int64_t simulated) {
    return SearchCounters{
        {SearchCounter::bounded, bounded}, {SearchCounter::lowered, lowered}, {SearchCounter::simulated, simulated}};
  };
  const PhaseSummary uniform{"uniform", false, true, 1'500'000'000, 0, 0, counters(12'345, 678, 90), 0.25};
  const PhaseSummary layers{"layer-wise", false, false, 0, 0, 0, counters(10, 2, 1), 1.5};
  const PhaseSummary operators{"operators", true};
  s.phases = {uniform, layers, operators};
  const std::string text = lay_out(phases_text(s), 0);
  EXPECT_THAT(text, testing::ContainsRegex("uniform +complete +12,345 +678 +90 +1.500 s +0.25 s"));
  EXPECT_THAT(text, testing::ContainsRegex("layer-wise +not finished +10 +2 +1 +unknown +1.50 s"));
  EXPECT_THAT(text, testing::ContainsRegex("operators +left out"));
}

TEST(BudgetsText, ALineEachWithItsValue) {
  const std::string text = lay_out(budgets_text(), 0);
  EXPECT_THAT(text, testing::ContainsRegex("most-across-prices \\* +6,000 +priced plans across node groups"));
  EXPECT_THAT(text, testing::ContainsRegex("incumbent-probes +64 +configurations simulated"));
}

/// Two pipelines of one model have a table each, with its share of the samples and the peaks of its own stages.
TEST(LayerTables, OnePipelineAfterTheOther) {
  Plan plan;
  plan.training.global_batch = 12;
  plan.only_pipeline().samples = 8;
  plan.only_pipeline().schedule.microbatches = 4;
  plan.only_pipeline().schedule.micro_batch = 2;
  plan.only_pipeline().stages = {stage({{0, 4}}), stage({{5, 9}})};
  EXPECT_EQ(layer_tables("Layers", plan, {1 << 30, 2 << 29}), "");  // one strategy
  plan.only_pipeline().stages.back().chunks.front().ranges.front().strategy.zero = ZeroStage::optimizer;
  EXPECT_THAT(layer_tables("Layers", plan, {1 << 30, 2 << 29}), testing::StartsWith("\nLayers\n"));
  Pipeline other;
  other.id = 1;
  other.samples = 4;
  other.schedule.microbatches = 4;
  other.stages = {stage({{0, 9}})};
  plan.pipelines.push_back(other);
  const std::string text = layer_tables("Layers", plan, {1LL << 30, 1LL << 30, 3LL << 30});
  const std::size_t second = text.find("Layers: pipeline 1, 4 of 12 samples, 4 micro-batches of 1\n");
  ASSERT_NE(second, std::string::npos);
  EXPECT_THAT(text.substr(0, second), HasSubstr("Layers: pipeline 0, 8 of 12 samples, 4 micro-batches of 2\n"));
  EXPECT_THAT(text.substr(0, second), testing::Not(HasSubstr("3.0 GiB")));
  EXPECT_THAT(text.substr(second), HasSubstr("3.0 GiB"));
}

/// Ten layers are on two stages. The rows show the layers of each stage, and how much slower a partition is than the
/// exact one.
TEST(BalanceTable, AgainstTheExactPartition) {
  Plan plan;
  plan.only_pipeline().stages = {stage({{0, 4}}), stage({{5, 9}})};
  const std::vector<StageBalance> balance = {{"even", {0, 5}, 0.4, 0.45, 110'000'000},
                                             {"memory-balanced", {0, 3}, 0.3, 0.5, 0},
                                             {"exact", {0, 4}, 0.48, 0.41, 100'000'000}};
  const std::string text = lay_out(balance_table(balance, plan), 0);
  EXPECT_THAT(text, testing::ContainsRegex("even +5.5 +0.400 +0.450 +110.0 ms +.10.0 %"));
  EXPECT_THAT(text, testing::ContainsRegex("memory-balanced +3.7 +0.300 +0.500 +does not fit"));
  EXPECT_THAT(text, testing::ContainsRegex("exact +4.6 +0.480 +0.410 +100.0 ms"));
}

}  // namespace
}  // namespace espalier::report
