// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/document.h"
#include "planner/brief_text.h"
#include "planner/result_json.h"

namespace espalier {
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

/// A planned toy problem: real values in every field.
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
  EXPECT_THAT(keys,
              testing::ElementsAre("schema", "engine", "plan", "prediction", "search", "alternatives", "reasons", "timing"));
  for (const auto& [key, node] : document->root.find("prediction")->members) figures.push_back(key);
  EXPECT_THAT(figures,
              testing::ElementsAre("iteration_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "mfu", "mfu_peak_tflops",
                                   "breakdown_s", "hidden_communication_s", "peak_memory_bytes", "peak_memory_bytes_per_stage",
                                   "memory_breakdown_bytes", "memory_limit_bytes", "fits", "confidence", "days", "gpu_hours"));
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
  EXPECT_EQ(to_json(*back, false).size() > 100, true);
  EXPECT_EQ(back->plan, planned().plan);
  EXPECT_EQ(back->prediction.iteration_ns, planned().prediction.iteration_ns);
  EXPECT_EQ(back->prediction.breakdown, planned().prediction.breakdown);
  EXPECT_EQ(back->search.by_dimension, planned().search.by_dimension);
  EXPECT_EQ(back->search.pruned, planned().search.pruned);
  EXPECT_EQ(back->alternatives.size(), planned().alternatives.size());
  EXPECT_EQ(back->reasons, planned().reasons);
}

TEST(ResultJson, DamagedResultsAreRefused) {
  const std::string text = to_json(planned(), false);
  EXPECT_FALSE(result_from_json(text.substr(0, text.size() / 2), "r"));
  EXPECT_FALSE(result_from_json("{}", "r"));
  EXPECT_FALSE(result_from_json(R"({"schema": "espalier.result/2"})", "r"));
  std::string renamed = text;
  renamed.replace(renamed.find("\"mfu\""), 5, "\"mfv\"");
  const auto back = result_from_json(renamed, "r");
  ASSERT_FALSE(back);
  EXPECT_THAT(back.error().message(), HasSubstr("mfv"));
}

TEST(ResultJson, ThreeCommandsGiveOneNanosecond) {
  const Job job = small_job();
  const auto estimated = estimate(job, planned().plan.strategy(), planned().plan.schedule);
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
       {"iteration", "tokens/s/GPU", "MFU", "memory", "certificate", "optimal", "uncalibrated", "compute", "days"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

TEST(BriefText, WritesNumbersAsPeopleDo) {
  EXPECT_EQ(text::seconds(5'120'000'000), "5.120 s");
  EXPECT_EQ(text::seconds(812'400'000), "812.4 ms");
  EXPECT_EQ(text::seconds(93'100), "93.1 us");
  EXPECT_EQ(text::seconds(0), "0 s");
  EXPECT_EQ(text::grouped(8'030'261'248), "8,030,261,248");
  EXPECT_EQ(text::grouped(-1234), "-1,234");
  EXPECT_EQ(text::grouped(999), "999");
  EXPECT_EQ(text::short_count(8.030261248e9), "8.03B");
  EXPECT_EQ(text::short_count(124'439'808), "124.4M");
  EXPECT_EQ(text::percent(0.4061), "40.6 %");
  EXPECT_EQ(text::gib(std::int64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(text::count(1e20), "1e+20");
  EXPECT_EQ(text::bar(0.5, 4), "██");
  EXPECT_EQ(text::bar(0.01, 4), "█");
  EXPECT_EQ(text::bar(0.001, 4), "");
  EXPECT_EQ(text::wrap("aa bb cc", 5, "  "), "aa bb\n  cc");
}

TEST(BriefText, TableAlignsByCodePoints) {
  EXPECT_EQ(text::table({{"a", "n", "why"}, {"é–", "10", "x"}}, {2}, ""), "a    n  why\né–  10  x\n");
}

TEST(BriefText, EqualStagesAreOneLine) {
  Plan plan;  // 12 layers: embedding, 10 blocks, head on 4 stages 3+3+3+3
  for (std::int32_t i = 0; i < 4; ++i) plan.stages.push_back({{}, {Chunk{{{3 * i, 3 * i + 2, {}}}}}, 1.0});
  const auto runs = text::stage_runs(plan, {40, 30, 20, 10});
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].layers, "embedding + 2 blocks");
  EXPECT_EQ(runs[1].layers, "3 blocks");
  EXPECT_EQ(runs[1].last, 2);
  EXPECT_EQ(runs[1].peak_bytes, 30);
  EXPECT_EQ(runs[2].layers, "2 blocks + head");
}

}  // namespace
}  // namespace espalier
