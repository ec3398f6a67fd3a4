// SPDX-License-Identifier: Apache-2.0
// The product in one call: what plan, estimate and simulate promise each other.
#include "espalier/planner.h"
#include "data/source_dir.h"
#include "plan/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "planner/memory_margin.h"

namespace espalier {
namespace {

using testing::HasSubstr;

Job job(const std::string& model, const std::string& cluster, const std::string& training, const std::string& more = "") {
  const std::string root = ESPALIER_SOURCE_DIR;
  auto loaded = load_job(
      "model: " + root + "/models/" + model + "/config.json\ncluster: " + cluster + "\ntraining: " + training + "\n" + more,
      "test", ".", {});
  EXPECT_TRUE(loaded.ok()) << (loaded ? "" : loaded.error().message());
  return loaded ? *loaded : Job{};
}

/// Jobs that differ in family, fabric, engine and restrictions, each planned in milliseconds.
std::vector<Job> jobs() {
  return {
      job("tiny-llama-test", "{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}",
          "{sequence_length: 512, global_batch: 16}"),
      job("gpt2", "{nodes: 1, devices_per_node: 4, device: rtx-4090}", "{sequence_length: 1024, global_batch: 32}",
          "search: {limits: {pp: 2}}\n"),
      job("mixtral-8x7b", "{nodes: 4, devices_per_node: 8, device: a100-sxm-80gb}",
          "{sequence_length: 4096, global_batch: 64, tokens: 1e10}",
          "search: {limits: {pp: 4, vpp: 2}, allow: {micro_batch: [1]}}\n"),
      job("t5-base", "{nodes: 2, devices_per_node: 4, device: v100-sxm-16gb}",
          "{sequence_length: {encoder: 512, decoder: 128}, global_batch: 32, precision: fp16}", "search: {limits: {pp: 4}}\n"),
      job("llama-3-8b", "{nodes: 2, devices_per_node: 8, device: h100-sxm-80gb}", "{sequence_length: 8192, global_batch: 32}",
          "engine: megatron-core\nsearch: {limits: {pp: 4}}\n"),
      job("swin-tiny", "{nodes: 1, devices_per_node: 4, device: l4}", "{global_batch: 64}"),
  };
}

PlannerResult planned(const Job& job, const PlannerOptions& options = {}) {
  auto result = plan(job, options);
  EXPECT_TRUE(result.ok()) << (result ? "" : result.error().message());
  return result ? *result : PlannerResult{};
}

TEST(Plan, SmallestExample) {
  const Job one = jobs().front();
  const PlannerResult result = planned(one);
  EXPECT_TRUE(result.search.optimal);
  EXPECT_EQ(result.search.lower_bound_ns, result.prediction.iteration_ns);
  EXPECT_EQ(result.search.gap, 0.0);
  EXPECT_EQ(result.search.reason, "optimal");
  EXPECT_TRUE(result.prediction.fits);
  EXPECT_THAT(result.prediction.confidence.basis, HasSubstr("uncalibrated"));
}

TEST(Plan, EstimateAndSimulateGiveTheSameNanosecond) {
  for (const Job& job : jobs()) {
    const PlannerResult found = planned(job);
    const auto estimated = estimate(job, found.plan.strategy(), found.plan.schedule);
    const auto simulated = simulate(job, found.plan);
    ASSERT_TRUE(estimated.ok() && simulated.ok()) << found.plan.label();
    for (const Prediction* p : {&estimated->prediction, &simulated->prediction}) {
      EXPECT_EQ(p->iteration_ns, found.prediction.iteration_ns) << found.plan.label();
      EXPECT_EQ(p->breakdown, found.prediction.breakdown);
      EXPECT_EQ(p->peak_memory_bytes_per_stage, found.prediction.peak_memory_bytes_per_stage);
    }
    EXPECT_EQ(to_json(estimated->plan), to_json(found.plan));
  }
}

// As integers: the parts of the breakdown are the iteration, those of the memory are the peak of the fullest rank.
TEST(Plan, BreakdownsAddUp) {
  for (const Job& job : jobs()) {
    const PlannerResult found = planned(job);
    const Prediction& p = found.prediction;
    EXPECT_EQ(p.breakdown.total_ns(), p.iteration_ns) << found.plan.label();
    const MemoryBreakdown& m = p.memory;
    EXPECT_EQ(m.parameters + m.gradients + m.optimizer + m.activations + m.communication_buffers + m.framework,
              p.peak_memory_bytes);
    EXPECT_EQ(p.peak_memory_bytes, *std::max_element(p.peak_memory_bytes_per_stage.begin(), p.peak_memory_bytes_per_stage.end()));
    EXPECT_EQ(p.peak_memory_bytes_per_stage.size(), found.plan.stages.size());
    EXPECT_LE(p.peak_memory_bytes, p.memory_limit_bytes);
  }
}

// A prediction of a plan that does not fit is a prediction all the same.
TEST(Estimate, SaysWhenItDoesNotFit) {
  const Job big =
      job("llama-3-8b", "{nodes: 1, devices_per_node: 8, device: a100-sxm-40gb}", "{sequence_length: 8192, global_batch: 8}");
  Strategy s;
  s.dp = 8;
  Schedule one;
  const auto r = estimate(big, s, one);
  ASSERT_TRUE(r.ok()) << r.error().message();
  EXPECT_FALSE(r->prediction.fits);
  EXPECT_GT(r->prediction.peak_memory_bytes, r->prediction.memory_limit_bytes);
}

TEST(Estimate, NamesEveryBrokenRule) {
  Strategy s;
  s.tp = 3, s.dp = 8;
  const auto r = estimate(jobs().front(), s, {});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::usage);
  EXPECT_THAT(r.error().found, HasSubstr("world"));
  EXPECT_THAT(r.error().found, HasSubstr("divide-heads"));
}

TEST(Plan, SameBytesForAnyNumberOfThreadsAndEveryRun) {
  for (const Job& job : jobs()) {
    PlannerOptions options;
    options.threads = 1;
    const PlannerResult first = planned(job, options);
    for (const int threads : {1, 2, 4, 8}) {
      options.threads = threads;
      const PlannerResult again = planned(job, options);
      EXPECT_EQ(to_json(again, false), to_json(first, false)) << threads << " threads";
      EXPECT_EQ(to_json(again.plan), to_json(first.plan)) << threads << " threads";
      EXPECT_EQ(again.brief().size() > 0, true);
    }
  }
}

TEST(Plan, ShowsTheUsualPresetsBesideTheAnswer) {
  for (const Job& job : jobs()) {
    const PlannerResult found = planned(job);
    std::vector<std::string> labels;
    for (const Alternative& a : found.alternatives) {
      if (a.baseline) labels.push_back(a.label);
      // What fits and lies in the space cannot be faster than the answer; all presets do with the generic engine and no search part.
      // (A recipe may need more memory than the margin leaves.)
      if (job.search == SearchSpace{} && job.engine == "generic" && a.fits && a.peak_memory_bytes <= memory_room_bytes(job)) {
        EXPECT_GE(a.iteration_ns, found.prediction.iteration_ns) << a.label;
      }
      if (!a.baseline) {
        EXPECT_GE(a.iteration_ns, found.prediction.iteration_ns) << a.label;
        EXPECT_TRUE(a.fits) << a.label;
      }
    }
    ASSERT_GE(labels.size(), 4u);
    labels.resize(4);  // recipes follow
    EXPECT_EQ(labels, (std::vector<std::string>{"DDP", "FSDP (ZeRO-3)", "HSDP", "Megatron 3-D default"}));
  }
}

TEST(Plan, CountsEveryConfigurationOnce) {
  for (const Job& job : jobs()) {
    const SearchSummary s = planned(job).search;
    double all = static_cast<double>(s.simulated);
    for (const auto& [rule, n] : s.pruned) all += n;
    EXPECT_EQ(all, s.space_size);
    for (const auto& [dimension, counts] : s.by_dimension) {
      double sum = 0;
      for (const auto& [value, n] : counts) sum += n;
      EXPECT_EQ(sum, s.space_size) << dimension;
    }
  }
}

TEST(Plan, EqualsExhaustiveSearch) {
  const Job small = job("tiny-llama-test", "{nodes: 1, devices_per_node: 4, device: l4}",
                        "{sequence_length: 256, global_batch: 8}", "search: {allow: {micro_batch: [1, 2]}, limits: {pp: 2}}\n");
  PlannerOptions all;
  all.exhaustive = true;
  EXPECT_EQ(to_json(planned(small, all).plan), to_json(planned(small).plan));
}

TEST(Plan, RespectsTheSearchPart) {
  const Job pinned =
      job("tiny-llama-test", "{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}", "{sequence_length: 512, global_batch: 16}",
          "search: {fix: {tp: 2, pp: 2}, forbid: {schedule: [zb-h1, zb-v]}, allow: {micro_batch: [2]}}\n");
  const PlannerResult r = planned(pinned);
  EXPECT_EQ(r.plan.strategy().tp, 2);
  EXPECT_EQ(r.plan.schedule.stages, 2);
  EXPECT_EQ(r.plan.schedule.micro_batch, 2);
  EXPECT_EQ(r.search.by_dimension.at("tp").size(), 1U);
}

TEST(Plan, AnEngineBoundsTheSpace) {
  const char* cluster = "{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}";
  const char* training = "{sequence_length: 512, global_batch: 16}";
  const PlannerResult generic = planned(job("tiny-llama-test", cluster, training));
  const PlannerResult fsdp = planned(job("tiny-llama-test", cluster, training, "engine: fsdp2\n"));
  EXPECT_LT(fsdp.search.space_size, generic.search.space_size);
  EXPECT_EQ(fsdp.plan.schedule.stages, 1);
  EXPECT_EQ(fsdp.plan.engine, "fsdp2");
}

TEST(Plan, InfeasibleSaysWhatWouldFit) {
  const Job big = job("llama-2-70b", "{nodes: 1, devices_per_node: 2, device: l4}", "{sequence_length: 4096, global_batch: 8}");
  const auto r = plan(big, {});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::infeasible);
  EXPECT_THAT(r.error().found, HasSubstr("none of"));
  EXPECT_THAT(r.error().hint, HasSubstr("would fit"));
}

// The restriction is to blame, and the hint says so: sharding is forbidden, without it the model does not fit.
TEST(Plan, InfeasibleBlamesTheRestriction) {
  const Job bound = job("llama-3-8b", "{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}",
                        "{sequence_length: 4096, global_batch: 8}", "search: {fix: {zero: 0, tp: 1, pp: 1}}\n");
  const auto r = plan(bound, {});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::infeasible);
  EXPECT_THAT(r.error().hint, HasSubstr("without search.fix.zero: 0, "));
}

TEST(Plan, NothingLegalSaysWhy) {
  const Job odd = job("tiny-llama-test", "{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}",
                      "{sequence_length: 512, global_batch: 16}", "search: {fix: {tp: 8, pp: 2}}\n");
  const auto r = plan(odd, {});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::infeasible);
  EXPECT_THAT(r.error().found, HasSubstr("search.fix.pp: 2 and search.fix.tp: 8 exclude each other"));
  EXPECT_FALSE(r.error().hint.empty());
}

TEST(Plan, ALimitReturnsTheBestSoFar) {
  PlannerOptions options;
  options.node_limit = 1;
  const Job gpt = jobs()[1];
  const PlannerResult part = planned(gpt, options), whole = planned(gpt);
  EXPECT_GE(part.prediction.iteration_ns, whole.prediction.iteration_ns);
  EXPECT_LE(part.search.lower_bound_ns, whole.prediction.iteration_ns);
  if (!part.search.optimal) {
    EXPECT_EQ(part.search.reason, "node limit");
    EXPECT_GE(part.search.gap, 0.0);
  }
}

/// Memory so short that some layers must save it, and some need not.
PlannerResult layerwise_answer() {
  return planned(job("gpt2", "{nodes: 1, devices_per_node: 4, device: rtx-4090, memory_limit: 6GiB}",
                     "{sequence_length: 1024, global_batch: 32}",
                     "search: {space: layerwise, limits: {pp: 2}, allow: {schedule: [1f1b]}}\n"));
}

TEST(Layerwise, TheBestUniformPlanStandsBesideTheAnswer) {
  const PlannerResult r = layerwise_answer();
  ASSERT_FALSE(r.plan.uniform()) << r.plan.label();
  ASSERT_TRUE(r.search.layerwise.has_value());
  const auto uniform = std::find_if(r.alternatives.begin(), r.alternatives.end(),
                                    [](const Alternative& a) { return a.label == "best uniform plan"; });
  ASSERT_NE(uniform, r.alternatives.end());
  EXPECT_TRUE(uniform->baseline && uniform->fits);
  EXPECT_EQ(uniform->iteration_ns, r.search.layerwise->uniform_ns);
  EXPECT_GT(uniform->iteration_ns, r.prediction.iteration_ns);
  ASSERT_TRUE(uniform->plan.has_value());
  EXPECT_TRUE(uniform->plan->uniform());
  EXPECT_THAT(uniform->lost_to, HasSubstr("+"));
  for (auto it = uniform + 1; it != r.alternatives.end(); ++it) {  // runners-up: others
    EXPECT_FALSE(it->baseline);
    EXPECT_NE(it->label, uniform->plan->label());
  }
}

// GPT-2 and Llama 3.2 1B share the table of embedding and head: one parameter cannot lie as TP 2 and as ZeRO-3 at once, and the cheaper of
// the two was what a plan paid. A document that says so is refused, whatever the stages.
TEST(Layerwise, EmbeddingAndHeadOfATiedModelAgree) {
  const std::vector<Job> tied = {
      job("gpt2", "{nodes: 1, devices_per_node: 4, device: rtx-4090}", "{sequence_length: 1024, global_batch: 32}",
          "search: {space: layerwise, memory_margin: 0}\n"),
      job("llama-3.2-1b", "{nodes: 1, devices_per_node: 4, device: rtx-4090}", "{sequence_length: 4096, global_batch: 8}",
          "search: {space: layerwise, memory_margin: 0}\n")};
  for (const Job& j : tied) {
    const PlannerResult r = planned(j);
    ASSERT_FALSE(r.plan.uniform()) << r.plan.label();
    EXPECT_TRUE(plan_violations(j.model, r.plan).empty()) << r.plan.label();
    Plan other = r.plan;
    LayerRange& last = other.stages.back().chunks.back().ranges.back();
    LayerRange head = last;
    head.first = head.last, --last.last;
    head.strategy.zero = head.strategy.zero == 3 ? 1 : 3;
    head.strategy.shard = static_cast<std::int32_t>(head.strategy.data_ranks());
    if (last.last < last.first) other.stages.back().chunks.back().ranges.pop_back();
    other.stages.back().chunks.back().ranges.push_back(head);
    const auto refused = simulate(j, other);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(refused.error().found, HasSubstr("tied-table"));
  }
}

TEST(Layerwise, BriefSaysWhatEachLayerDoesAndWhatItGains) {
  const PlannerResult r = layerwise_answer();
  const std::string text = r.brief();
  EXPECT_EQ(text.substr(0, text.find('\n')), r.plan.label());
  for (const char* part :
       {"less time than the best uniform plan", "strategies × layers", "embedding ", "head ", "layer-wise plan"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Layerwise, ReasonsCompareWithTheBestUniformPlan) {
  const PlannerResult r = layerwise_answer();
  const auto names = [](const std::string& s) { return s.find("in the best uniform plan") != std::string::npos; };
  EXPECT_TRUE(std::any_of(r.reasons.begin(), r.reasons.end(), names)) << r.brief();
  const auto faster = [](const std::string& s) { return s.find("faster than the best uniform plan") != std::string::npos; };
  EXPECT_TRUE(std::any_of(r.reasons.begin(), r.reasons.end(), faster)) << r.brief();
}

TEST(Plan, RefusesAnUnknownPruningRule) {
  PlannerOptions options;
  options.disabled_rules = {"layer-bond"};
  const auto r = plan(jobs().front(), options);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::usage);
  EXPECT_THAT(r.error().hint, HasSubstr("layer-bound"));
}

}  // namespace
}  // namespace espalier
