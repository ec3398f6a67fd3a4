// SPDX-License-Identifier: Apache-2.0
// Tests the parts of an answer next to its plan: the simplest plan, engines that run it, published recipes, the batch
// that divides better.
#include "planner/answer_extras.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "espalier/check.h"
#include "espalier/planner.h"
#include "plan/dimensions_used.h"
#include "plan/engine.h"
#include "planner/batch_hint.h"
#include "planner/recipes.h"
#include "planner/runs_on.h"
#include "planner/test_jobs.h"

namespace espalier::report {
namespace {

using planner::test::job;
using planner::test::planned;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char* const kEight = "{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}";

Job tiny(const std::string& more = "") {
  return job("tiny-llama-test", kEight, "{sequence_length: 512, global_batch: 16}", more);
}

// The simplest plan is never faster than the fastest, is within reach of it, and uses no more dimensions.
TEST(SimplestPlan, StandsBesideEveryAnswer) {
  for (const double within : {0.0, 0.01, 0.5}) {
    PlannerOptions options;
    options.simple_within = within;
    const PlannerResult r = planned(tiny(), options);
    ASSERT_TRUE(r.simplest.has_value());
    EXPECT_TRUE(r.simplest->certified);
    EXPECT_GE(r.simplest->iteration_ns, r.prediction.iteration_ns);
    EXPECT_LE(static_cast<double>(r.simplest->iteration_ns), static_cast<double>(r.prediction.iteration_ns) * (1 + within) + 1);
    EXPECT_LE(r.simplest->dimensions, dimensions_used(r.plan));
    EXPECT_THAT(to_json(r), HasSubstr("\"simplest\": {\"label\": "));
    EXPECT_THAT(r.brief(), HasSubstr("simplest"));
  }
}

// With any plan within reach, plain data parallelism fits and uses no dimension at all.
TEST(SimplestPlan, IsTheAnswerWhereItIsAskedFor) {
  PlannerOptions options;
  options.simple = true;
  options.simple_within = 10;
  const PlannerResult r = planned(tiny(), options);
  EXPECT_EQ(dimensions_used(r.plan), 0) << r.plan.label();
  EXPECT_EQ(r.plan.strategy().dp, 8);
  EXPECT_EQ(r.prediction.iteration_ns, r.simplest->iteration_ns);
  EXPECT_FALSE(r.search.optimal);
  EXPECT_EQ(r.search.reason, SearchEnd::gap);
  const PlannerResult fastest = planned(tiny());
  EXPECT_EQ(r.search.lower_bound_ns, fastest.prediction.iteration_ns);
  ASSERT_FALSE(r.alternatives.empty());
  EXPECT_EQ(r.alternatives.front().label, "fastest plan");
  EXPECT_EQ(r.alternatives.front().iteration_ns, fastest.prediction.iteration_ns);
}

TEST(RunsOn, EnginesWithoutRulesAreUnknown) {
  EXPECT_FALSE(planner::has_rules(*find_engine("generic")));
  EXPECT_FALSE(planner::has_rules(*find_engine("jax")));
  EXPECT_TRUE(planner::has_rules(*find_engine("megatron-core")));
  const Job one = tiny("search: {limits: {pp: 2, vpp: 2}}\n");
  PlannerOptions options;
  options.engines = true;
  const PlannerResult r = planned(one, options);
  for (const EngineAnswer& e : r.engines)
    EXPECT_EQ(e.status == EngineStatus::unknown, !planner::has_rules(*find_engine(e.engine))) << e.engine;
  std::size_t listed = 0;  // all but generic, and those whose runtime is not in this release
  for (const EngineModel& e : engine_catalogue()) listed += e.name != "generic" && !e.planned ? 1 : 0;
  EXPECT_EQ(r.engines.size(), listed);
  EXPECT_TRUE(find_engine("espalier")->planned);
}

// Megatron-Core does not have ZB-V; torchtitan does.
TEST(RunsOn, ThisVeryPlan) {
  const Job eight = job("llama-3-8b", kEight, "{sequence_length: 8192, global_batch: 64}");
  Strategy s;
  s.dp = 4;
  s.overlap.grad_reduce = s.overlap.p2p = true;  // torchtitan has no switch
  Schedule c;
  c.kind = ScheduleKind::zb_v;
  c.stages = 2;
  c.virtual_stages = 2;
  c.micro_batch = 1;
  c.microbatches = 16;
  const auto made = estimate(eight, s, c);
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_FALSE(planner::accepts(*find_engine("megatron-core"), eight, made->plan));
  EXPECT_TRUE(planner::accepts(*find_engine("torchtitan"), eight, made->plan));
  const std::vector<std::string> all = engines_that_run(eight, made->plan);
  EXPECT_THAT(all, testing::Contains("torchtitan"));
  EXPECT_THAT(all, testing::Not(testing::Contains("megatron-core")));
  EXPECT_THAT(all, testing::Not(testing::Contains("jax")));
}

// Under generic, the answer names the engines that run the plan, or the nearest engine's plan: the one that planning
// for that engine finds.
TEST(RunsOn, IsAlwaysSaidUnderGeneric) {
  for (const std::string schedule : {"1f1b", "zb-h1"}) {
    const Job one = tiny("search: {fix: {pp: 2, schedule: " + schedule + ", overlap_grad: true}, allow: {zero: [0, 1]}}\n");
    const PlannerResult r = planned(one);
    ASSERT_TRUE(r.runs_on.has_value());
    EXPECT_THAT(r.brief(), HasSubstr("runs on"));
    EXPECT_THAT(to_json(r), HasSubstr("\"runs_on\": ["));
    if (schedule == "1f1b") continue;
    EXPECT_TRUE(r.runs_on->empty());       // ZB-H1 is in no engine with rules
    EXPECT_FALSE(r.runnable.has_value());  // and the job pins it
  }
  const PlannerResult free = planned(tiny());
  if (free.runs_on->empty()) {
    ASSERT_TRUE(free.runnable.has_value());
    Job own = tiny("engine: " + free.runnable->engine + "\n");
    EXPECT_EQ(planned(own).prediction.iteration_ns, free.runnable->iteration_ns);
  }
}

// The engine that is named is the fastest of those that are tried.
TEST(RunsOn, NamesTheFastestEngine) {
  const Job one = tiny("search: {fix: {pp: 2}, forbid: {schedule: [1f1b, gpipe, interleaved]}}\n");
  PlannerOptions options;
  options.engines = true;
  const PlannerResult all = planned(one, options), r = planned(one);
  if (!r.runnable) return;
  for (const EngineAnswer& e : all.engines) {
    const bool usual = std::find(std::begin(planner::kUsualEngines), std::end(planner::kUsualEngines), e.engine) !=
                       std::end(planner::kUsualEngines);
    EXPECT_TRUE(!usual || e.label.empty() || r.runnable->iteration_ns <= e.iteration_ns) << e.engine;
  }
  EXPECT_EQ(all.runnable->iteration_ns, r.runnable->iteration_ns);
}

// The counters of phases that are repeated on parts of the cluster agree with each other.
TEST(RepeatedPhases, TheirFiguresPassTheCheck) {
  const auto job = load_job(
      "model: {model_type: llama, hidden_size: 1024, intermediate_size: 4096, num_hidden_layers: 6, num_attention_heads: 16, "
      "vocab_size: 8192}\ncluster: {groups: [{nodes: 3, devices_per_node: 1, device: titan-rtx}, {nodes: 1, devices_per_node: 3, "
      "device: v100-sxm-16gb}, {nodes: 2, devices_per_node: 1, device: titan-rtx}], inter_group: {bandwidth: 25Gb/s}}\n"
      "training: {sequence_length: 1024, global_batch: 34, precision: fp16}\nengine: generic\n",
      "test", ".", {});
  ASSERT_TRUE(job.ok()) << job.error().message();
  const std::string document = to_json(planned(*job));
  const auto claimed = result_from_json(document, "result.json");
  ASSERT_TRUE(claimed.ok());
  const auto report = check_result(*job_of_plan(claimed->plan), *claimed, document, {});
  ASSERT_TRUE(report.ok()) << report.error().message();
  for (const Finding& finding : report->findings) EXPECT_TRUE(finding.ok) << finding.name << ": " << finding.text;
}

std::vector<std::string> labels_of(const Job& job) {
  std::vector<std::string> out;
  for (const planner::Baseline& b :
       planner::recipes(job, rule_facts(job.model, job.cluster, job.training), *find_engine(job.engine)))
    out.push_back(b.label);
  return out;
}

// Recipes are chosen by devices, kind and size. Recipes of 2021 do not appear for an H100, and those of a dense model
// not for a mixture. 8B, 70B and 405B are the exact sizes. On 512 devices the groups of Meta's recipe, 8 · 16,
// divide. A sequence of 2,048 is less than half of the 8,192 of NeMo's 8B.
TEST(Recipes, OfTheEraTheKindAndTheSize) {
  const char* const large = "{nodes: 64, devices_per_node: 8, device: h100-sxm-80gb}";
  const char* const batch = "{sequence_length: 8192, global_batch: 512}";
  EXPECT_THAT(labels_of(job("llama-3-8b", kEight, batch)),
              ElementsAre("NeMo 24.07 recipe (Llama 3 8B)", "torchtitan 2024 recipe (Llama 3 8B)"));
  EXPECT_THAT(labels_of(job("llama-3-8b", kEight, "{sequence_length: 2048, global_batch: 512}")),
              ElementsAre("torchtitan 2024 recipe (Llama 3 8B)"));
  EXPECT_THAT(labels_of(job("llama-3-8b", "{nodes: 1, devices_per_node: 8, device: a100-sxm-80gb}", batch)),
              ElementsAre("Megatron-LM 2021 recipe (GPT 7.5B)"));
  EXPECT_THAT(labels_of(job("llama-3-8b", "{nodes: 1, devices_per_node: 8, device: b200-sxm}", batch)),
              ElementsAre("Megatron-Bridge recipe (Llama 3 8B)"));
  EXPECT_THAT(labels_of(job("llama-3.1-405b", large, batch)),
              ElementsAre("NeMo 24.07 recipe (Nemotron-4 340B)", "Meta's recipe (Llama 3.1 405B)",
                          "torchtitan 2024 recipe (Llama 3.1 405B)"));
  EXPECT_THAT(labels_of(job("deepseek-v3", large, batch)),
              ElementsAre("Megatron-Bridge recipe (Qwen3 235B-A22B)", "DeepSeek-V3 recipe"));
  EXPECT_TRUE(labels_of(job("swin-tiny", kEight, "{global_batch: 64}")).empty());
}

// Llama 3 70B on 64 devices has TP 4, PP 4, CP 2, so DP 2 with ZeRO 1. torchtitan has TP 8 with FSDP over the other
// 8.
TEST(Recipes, DegreesAreThePublishedOnes) {
  const Job big =
      job("llama-3-70b", "{nodes: 8, devices_per_node: 8, device: h100-sxm-80gb}", "{sequence_length: 8192, global_batch: 512}");
  const auto all = planner::recipes(big, rule_facts(big.model, big.cluster, big.training), *find_engine("generic"));
  ASSERT_EQ(all.size(), 2u);
  ASSERT_FALSE(all[0].family.empty()) << all[0].refusal;
  const search::Configuration& m = all[0].family.front();
  EXPECT_EQ(std::make_tuple(m.strategy.tp, m.schedule.stages, m.strategy.cp, m.strategy.dp, number_of(m.strategy.zero)),
            std::make_tuple(4, 4, 2, 2, 1));
  EXPECT_EQ(m.strategy.sp, SequenceParallel::megatron);
  EXPECT_TRUE(all[0].engine.empty());
  ASSERT_FALSE(all[1].family.empty()) << all[1].refusal;
  const search::Configuration& t = all[1].family.front();
  EXPECT_EQ(std::make_tuple(t.strategy.tp, t.schedule.stages, t.strategy.dp, number_of(t.strategy.zero), t.strategy.shard),
            std::make_tuple(8, 1, 8, 3, 8));
  EXPECT_EQ(t.strategy.recompute.kind, RecomputeKind::full);
}

// DeepSeek's authors used options. The recipe is predicted with those that the job's engine has.
TEST(Recipes, HaveTheOptionsOfTheirAuthors) {
  const Job own = job("deepseek-v3", "{nodes: 256, devices_per_node: 8, device: h800}",
                      "{sequence_length: 4096, global_batch: 15360, precision: fp8}");
  const auto all = planner::recipes(own, rule_facts(own.model, own.cluster, own.training), *find_engine("generic"));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_THAT(all[1].engine, HasSubstr("fp8-activations"));
  EXPECT_THAT(all[1].engine, HasSubstr("overlap-experts"));
  ASSERT_FALSE(all[1].family.empty()) << all[1].refusal;
  EXPECT_EQ(all[1].family.front().schedule.kind, ScheduleKind::zb_v);
}

// With 8 devices and 12 samples, 8 does not divide 12, so 16 is tried. 16 samples divide by all of 2, 4, 8.
TEST(BatchHint, BatchesToTry) {
  EXPECT_THAT(planner::batches_to_try(8, 12), ElementsAre(16));
  EXPECT_TRUE(planner::batches_to_try(8, 16).empty());
  EXPECT_THAT(planner::batches_to_try(8, 5), ElementsAre(6, 8));  // next multiples of 2, and of 4 and 8
  EXPECT_TRUE(planner::batches_to_try(8, 1).empty() || planner::batches_to_try(8, 1).front() == 2);
}

// With sixty samples on eight GPUs, eight replicas do not divide them, so that GPUs must split samples or layers.
// With 64 every GPU takes eight.
TEST(BatchHint, NamesTheNextBatchThatDivides) {
  const std::string fixed = "search: {fix: {pp: 1, cp: 1}}\n";
  const auto gpt = [&](int batch) {
    return planned(job("gpt2", kEight, "{sequence_length: 1024, global_batch: " + std::to_string(batch) + "}", fixed));
  };
  const PlannerResult odd = gpt(60), even = gpt(64);
  ASSERT_TRUE(odd.batch_hint.has_value());
  EXPECT_EQ(odd.batch_hint->global_batch, 64);
  EXPECT_EQ(odd.batch_hint->iteration_ns, even.prediction.iteration_ns);
  EXPECT_FALSE(even.batch_hint.has_value());
  // Today's plan for 64 samples has its end of step once, the rest in proportion.
  const auto whole = static_cast<double>(odd.prediction.iteration_ns);
  const auto end = static_cast<double>(odd.prediction.breakdown.optimizer_ns);
  const double today = end + (whole - end) * 64 / 60;
  EXPECT_NEAR(odd.batch_hint->gain, 1 - static_cast<double>(even.prediction.iteration_ns) / today, 1e-9);
  EXPECT_GT(odd.batch_hint->gain, 0.01);
  EXPECT_THAT(odd.brief(), HasSubstr("The divisors of global batch 60 limit the plan"));
}

TEST(BesideAnswer, SurvivesJson) {
  PlannerOptions options;
  options.engines = true;
  const PlannerResult r = planned(tiny(), options);
  const auto again = result_from_json(to_json(r), "test");
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(again->runs_on, r.runs_on);
  EXPECT_EQ(again->simplest->label, r.simplest->label);
  EXPECT_EQ(again->simplest->dimensions, r.simplest->dimensions);
  EXPECT_EQ(again->simplest->certified, r.simplest->certified);
  ASSERT_EQ(again->engines.size(), r.engines.size());
  for (std::size_t i = 0; i < r.engines.size(); ++i) {
    EXPECT_EQ(again->engines[i].status, r.engines[i].status);
    EXPECT_EQ(again->engines[i].iteration_ns, r.engines[i].iteration_ns);
  }
  EXPECT_EQ(again->prediction.bottleneck.busy_per_stage, r.prediction.bottleneck.busy_per_stage);
  EXPECT_EQ(again->prediction.bottleneck.breakdown, r.prediction.bottleneck.breakdown);
  EXPECT_EQ(again->prediction.fits_with_margin, r.prediction.fits_with_margin);
  EXPECT_EQ(again->search.memory_margin, r.search.memory_margin);
}

}  // namespace
}  // namespace espalier::report
