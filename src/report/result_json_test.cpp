// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/document.h"
#include "base/format.h"
#include "espalier/planner.h"
#include "planner/phase_testing.h"
#include "report/brief_layers.h"
#include "report/brief_text.h"
#include "report/text_layout.h"

namespace espalier::report::result_json_test {
namespace {

using testing::HasSubstr;
using testing::Not;

Job small_job() {
  auto job = load_job(R"(
model: {model_type: gpt2, n_layer: 4, n_embd: 64, n_head: 4, n_positions: 128, vocab_size: 256}
cluster: {nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}
training: {sequence_length: 128, global_batch: 64, tokens: 1e9}
)",
                      "job.yaml", ".", {});
  EXPECT_TRUE(job) << job.error().message();
  return std::move(job).value();
}

/// Returns a planned toy problem, with real values in every field.
const PlannerResult& planned() {
  static const PlannerResult result = [] {
    PlannerOptions options;
    options.threads = 1;
    auto r = plan(small_job(), options);
    EXPECT_TRUE(r) << r.error().message();
    return std::move(r).value();
  }();
  return result;
}

TEST(ResultJson, HasTheKeysOfTheContractInOrder) {
  const auto document = base::read_json(to_json(planned()), "result");
  ASSERT_TRUE(document);
  std::vector<std::string> keys, figures;
  for (const auto& [key, node] : document->root.members) keys.push_back(key);
  EXPECT_THAT(keys, testing::ElementsAre("schema", "made_by", "engine", "plan", "prediction", "search", "runs_on", "simplest",
                                         "alternatives", "reasons", "digest", "timing"));
  for (const auto& [key, node] : document->root.find("prediction")->members) figures.push_back(key);
  EXPECT_THAT(figures, testing::ElementsAre("iteration_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "mfu", "mfu_causal",
                                            "mfu_peak_tflops", "breakdown_s", "last_stage", "step_host_s",
                                            "hidden_communication_s", "bottleneck", "peak_memory_bytes",
                                            "peak_memory_bytes_per_stage", "memory_breakdown_bytes", "memory_limit_bytes", "fits",
                                            "memory_margin", "fits_with_margin", "confidence", "days", "gpu_hours"));
}

TEST(ResultJson, SecondsHaveNineDigitsAndTheBreakdownSumsToTheNanosecond) {
  const auto document = base::read_json(to_json(planned()), "result");
  ASSERT_TRUE(document);
  const auto ns = [](const std::string& text) {
    EXPECT_EQ(text.size() - text.find('.') - 1, 9u) << text;
    std::string digits = text;
    digits.erase(digits.find('.'), 1);
    return std::stoll(digits);
  };
  const base::Node* p = document->root.find("prediction");
  std::int64_t sum = 0;
  for (const auto& [key, node] : p->find("breakdown_s")->members) sum += ns(node.text);
  EXPECT_EQ(sum, ns(p->find("iteration_s")->text));
  EXPECT_EQ(sum, planned().prediction.iteration_ns);
}

TEST(ResultJson, OnlyTimingHoldsWallClock) {
  PlannerResult slow = planned();
  slow.total_s = 12;
  slow.search_s = 11;
  slow.threads = 7;
  EXPECT_EQ(to_json(slow, false), to_json(planned(), false));
  EXPECT_NE(to_json(slow), to_json(planned()));
}

TEST(ResultJson, RoundTrip) {
  const std::string text = to_json(planned(), false);
  const auto back = result_from_json(text, "result.json");
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(to_json(*back, false), text);
  EXPECT_EQ(back->plan, planned().plan);
  EXPECT_EQ(back->prediction.iteration_ns, planned().prediction.iteration_ns);
  EXPECT_EQ(back->prediction.breakdown, planned().prediction.breakdown);
  EXPECT_EQ(back->search.by_dimension, planned().search.by_dimension);
  EXPECT_EQ(back->search.pruned, planned().search.pruned);
  ASSERT_EQ(back->alternatives.size(), planned().alternatives.size());
  for (std::size_t i = 0; i < back->alternatives.size(); ++i)
    EXPECT_EQ(back->alternatives[i].plan_label,
              planned().alternatives[i].plan ? planned().alternatives[i].plan->label() : std::string());
  EXPECT_EQ(back->reasons, planned().reasons);
}

TEST(ResultJson, RoundTripOfALayerwiseSearch) {
  PlannerResult r = planned();
  r.search.space = SpaceKind::layerwise;
  r.search.reason = SearchEnd::gap;
  r.search.gap = 0.25;
  r.search.phases = planner::test::layer_phases(2'000'000'000, 30, 10, 5, 3);
  r.search.balance = {{"even", {0, 3}, 0.4, 0.5, 0}, {"exact", {0, 2}, 0.5, 0.4, 7}};
  const auto back = result_from_json(to_json(r, false), "result.json");
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_TRUE(covers_layers(back->search));
  EXPECT_EQ(back->search.space, SpaceKind::layerwise);
  EXPECT_EQ(best_uniform_ns(back->search), 2'000'000'000);
  EXPECT_EQ(back->search.phases[1].counters, r.search.phases[1].counters);
  ASSERT_EQ(back->search.balance.size(), 2U);
  EXPECT_EQ(back->search.balance[1].first, (std::vector<std::int32_t>{0, 2}));
  EXPECT_EQ(back->search.balance[1].iteration_ns, 7);
  EXPECT_EQ(to_json(*back, false), to_json(r, false));
  EXPECT_FALSE(covers_layers(planned().search));
}

TEST(ResultJson, DamagedResultsAreRefused) {
  const std::string text = to_json(planned(), false);
  EXPECT_FALSE(result_from_json(text.substr(0, text.size() / 2), "r"));
  EXPECT_FALSE(result_from_json("{}", "r"));
  EXPECT_FALSE(result_from_json(R"({"schema": "espalier.result/3"})", "r"));
  std::string renamed = text;
  renamed.replace(renamed.find("\"mfu\""), 5, "\"mfv\"");
  const auto back = result_from_json(renamed, "r");
  ASSERT_FALSE(back);
  EXPECT_THAT(back.error().message(), HasSubstr("mfv"));
}

// Times of a result are counted in nanoseconds, including the ends of its interval. None may exceed their range.
TEST(ResultJson, IntervalsOfAgesAreRefused) {
  std::string text = to_json(planned(), false);
  const std::string key = "\"iteration_s_high\": ";
  const std::size_t at = text.find(key) + key.size();
  text.replace(at, text.find(',', at) - at, "1e17");
  const auto back = result_from_json(text, "r");
  ASSERT_FALSE(back);
  EXPECT_THAT(back.error().message(), HasSubstr("iteration_s_high"));
}

// The reason of a search's end and the covered space are enumerated values. Unknown words are rejected, not carried
// along.
TEST(ResultJson, UnknownReasonsAndSpacesAreRefused) {
  const std::string text = to_json(planned(), false);
  const std::string reason = "\"reason\": \"" + std::string(to_string(planned().search.reason)) + "\"";
  ASSERT_NE(text.find(reason), std::string::npos);
  std::string changed = text;
  const auto back = result_from_json(changed.replace(text.find(reason), reason.size(), "\"reason\": \"best guess\""), "r");
  ASSERT_FALSE(back);
  EXPECT_THAT(back.error().message(), HasSubstr("best guess"));
}

// Phases belong to a search. Without one they are absent everywhere, including the wall-clock values, so that a
// document that was read is written unchanged.
TEST(ResultJson, PhasesAreThoseOfASearchAndEachIsThereOnce) {
  PlannerResult r = planned();
  r.search = {};
  r.search.phases.resize(2);
  r.search.phases[0].name = "uniform";
  r.search.phases[1].name = "layer-wise";
  EXPECT_THAT(to_json(r, true), Not(HasSubstr("\"phases\"")));
  r.search.reason = SearchEnd::gap;
  const auto twice = result_from_json(to_json(r, false), "r");
  ASSERT_TRUE(twice) << twice.error().message();
  EXPECT_EQ(to_json(*twice, true), to_json(*result_from_json(to_json(*twice, true), "r"), true));
  r.search.phases[1].name = "uniform";
  const auto back = result_from_json(to_json(r, false), "r");
  ASSERT_FALSE(back);
  EXPECT_THAT(back.error().message(), HasSubstr("each phase once"));
}

TEST(ResultJson, ThreeCommandsGiveOneNanosecond) {
  const Job job = small_job();
  const auto estimated = estimate(job, planned().plan.strategy(), planned().plan.only_pipeline().schedule);
  ASSERT_TRUE(estimated) << estimated.error().message();
  const auto simulated = simulate(job, planned().plan);
  ASSERT_TRUE(simulated) << simulated.error().message();
  EXPECT_EQ(estimated->prediction.iteration_ns, planned().prediction.iteration_ns);
  EXPECT_EQ(simulated->prediction.iteration_ns, planned().prediction.iteration_ns);
}

TEST(ResultJson, AJobComesBackFromItsPlan) {
  const Job job = small_job();
  const auto back = job_of_plan(planned().plan);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->model, job.model);
  EXPECT_EQ(back->cluster.groups, job.cluster.groups);
  EXPECT_EQ(back->training, job.training);
  Plan edited = planned().plan;
  edited.model_source.replace(edited.model_source.find("64"), 2, "96");
  EXPECT_FALSE(job_of_plan(edited));
  edited.model_source.clear();
  EXPECT_FALSE(job_of_plan(edited));
}

TEST(Brief, SaysWhatAnEngineerAsksFirst) {
  const std::string text = planned().brief();
  EXPECT_EQ(text.substr(0, text.find('\n')), planned().plan.label());
  for (const char* part :
       {"step", "tokens/s/GPU", "MFU", "memory", "certificate", "optimal", "uncalibrated", "compute", "days"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

TEST(BriefText, WritesNumbersAsPeopleDo) {
  EXPECT_EQ(base::seconds(5'120'000'000), "5.120 s");
  EXPECT_EQ(base::seconds(812'400'000), "812.4 ms");
  EXPECT_EQ(base::seconds(93'100), "93.1 us");
  EXPECT_EQ(base::seconds(0), "0 s");
  EXPECT_EQ(base::grouped(8'030'261'248), "8,030,261,248");
  EXPECT_EQ(base::grouped(-1234), "-1,234");
  EXPECT_EQ(base::grouped(999), "999");
  EXPECT_EQ(base::short_count(8.030261248e9), "8.03B");
  EXPECT_EQ(base::short_count(124'439'808), "124.4M");
  EXPECT_EQ(base::percent(0.4061), "40.6 %");
  EXPECT_EQ(base::gib(std::int64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(base::count(1e20), "1e+20");
  EXPECT_EQ(bar(0.5, 4), "██");
  EXPECT_EQ(bar(0.01, 4), "█");
  EXPECT_EQ(bar(0.001, 4), "");
  EXPECT_EQ(lay_out(wrap("aa bb cc", 5, "  "), 0), "aa bb\n  cc");
}

TEST(BriefText, TableAlignsByCodePoints) {
  EXPECT_EQ(lay_out(table({{"a", "n", "why"}, {"é–", "10", "x"}}, {2}, ""), 0), "a    n  why\né–  10  x\n");
}

/// Returns the embedding, 10 blocks and the head on 4 stages of 3, with dp 2 except for the last block, which has tp
/// 2.
Plan twelve_layers() {
  Plan plan;
  Strategy two;
  two.dp = 2;
  for (std::int32_t i = 0; i < 4; ++i) plan.only_pipeline().stages.push_back({{}, {Chunk{{{3 * i, 3 * i + 2, two}}}}});
  auto& ranges = plan.only_pipeline().stages[3].chunks[0].ranges;
  Strategy split;
  split.tp = 2;
  ranges = {{9, 9, two}, {10, 10, split}, {11, 11, two}};
  return plan;
}

TEST(BriefLayers, EqualStagesAreOneRow) {
  EXPECT_EQ(lay_out(layer_table(twelve_layers().only_pipeline(), {4LL << 30, 3LL << 30, 2LL << 30, 1LL << 30}), 0),
            "  stage  layers          peak  strategies × layers\n"
            "  0      0–2          4.0 GiB  embedding DP2, DP2 ×2\n"
            "  1–2    3–8, 3 each  3.0 GiB  DP2 ×3\n"
            "  3      9–11         1.0 GiB  DP2 ×1, TP2 ×1, head DP2\n");
}

TEST(BriefLayers, ChunksAreSetApartAndLinesBrokenBetweenRuns) {
  Plan plan = twelve_layers();
  plan.only_pipeline().stages[0].chunks.push_back(plan.only_pipeline().stages[3].chunks[0]);
  EXPECT_EQ(strategies_of(plan.only_pipeline().stages[0], 11, 80), "embedding DP2, DP2 ×2 | DP2 ×1, TP2 ×1, head DP2");
  EXPECT_EQ(strategies_of(plan.only_pipeline().stages[0], 11, 22), "embedding DP2, DP2 ×2 |\nDP2 ×1, TP2 ×1,\nhead DP2");
}

TEST(BriefLayers, BalanceAgainstTheExactPartition) {
  const std::vector<StageBalance> s = {{"even", {0, 3, 6, 9}, 0.7, 0.6, 0},
                                       {"exact", {0, 4, 7, 9}, 0.75, 0.5, 2'000'000'000},
                                       {"polished", {0, 4, 6, 9}, 0.75, 0.5, 1'900'000'000}};
  const std::string table = lay_out(balance_table(s, twelve_layers()), 0);
  EXPECT_THAT(table, testing::ContainsRegex("even +3.3.3.3 +0.700 +0.600 +does not fit +–"));
  EXPECT_THAT(table, testing::ContainsRegex("exact +4.3.2.3 +0.750 +0.500 +2.000 s +.0.0 %"));
  EXPECT_THAT(table, testing::ContainsRegex("polished +4.2.3.3 +0.750 +0.500 +1.900 s +-5.0 %"));
}

TEST(BriefLayers, CertificatesOfBothSpaces) {
  PlannerResult r = planned();
  r.search.phases = planner::test::layer_phases(r.prediction.iteration_ns);
  EXPECT_THAT(r.brief(), HasSubstr("optimal: no layer-wise plan is faster, and none of the"));
  r.search.optimal = false;
  r.search.reason = SearchEnd::gap;
  r.search.gap = 0.125;
  EXPECT_THAT(r.brief(), HasSubstr("at most 12.5 % from the best layer-wise plan (none is below"));
  r.search.reason = SearchEnd::node_limit;
  EXPECT_THAT(r.brief(), HasSubstr("not proven (node limit): at most 12.5 % from the best layer-wise plan"));
  EXPECT_THAT(r.brief(), Not(HasSubstr("Stage balance")));
}

TEST(BriefLayers, GainInWords) {
  SearchSummary s;
  EXPECT_THAT(layerwise_gain(s, 5), HasSubstr("no uniform plan fits"));
  s.phases = planner::test::layer_phases(2'000'000'000);
  EXPECT_EQ(layerwise_gain(s, 1'500'000'000), "25.0 % less time than the best uniform plan (2.000 s)");
  EXPECT_THAT(layerwise_gain(s, 2'000'000'000), HasSubstr("no gain"));
}

TEST(BriefText, EqualStagesAreOneLine) {
  Plan plan;  // 12 layers: embedding, 10 blocks, head on 4 stages 3+3+3+3
  for (std::int32_t i = 0; i < 4; ++i) plan.only_pipeline().stages.push_back({{}, {Chunk{{{3 * i, 3 * i + 2, {}}}}}});
  const auto runs = stage_runs(plan.only_pipeline(), {40, 30, 20, 10});
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].layers, "embedding + 2 blocks");
  EXPECT_EQ(runs[1].layers, "3 blocks");
  EXPECT_EQ(runs[1].last, 2);
  EXPECT_EQ(runs[1].peak_bytes, 30);
  EXPECT_EQ(runs[2].layers, "2 blocks + head");
}

}  // namespace
}  // namespace espalier::report::result_json_test
