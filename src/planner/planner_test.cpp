// SPDX-License-Identifier: Apache-2.0
// Tests the product end to end: what plan, estimate and simulate guarantee each other.
#include "espalier/planner.h"
#include "plan/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "planner/memory_margin.h"
#include "planner/test_jobs.h"

namespace espalier::planner {
namespace {

using test::job;
using test::planned;
using ::testing::HasSubstr;

/// Returns jobs that differ in family, fabric, engine and restrictions, each planned in milliseconds.
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

TEST(Plan, SmallestExample) {
  const Job one = jobs().front();
  const PlannerResult result = planned(one);
  EXPECT_TRUE(result.search.optimal);
  EXPECT_EQ(result.search.lower_bound_ns, result.prediction.iteration_ns);
  EXPECT_EQ(result.search.gap, 0.0);
  EXPECT_EQ(result.search.reason, SearchEnd::optimal);
  EXPECT_TRUE(result.prediction.fits);
  EXPECT_THAT(result.prediction.confidence.basis, HasSubstr("uncalibrated"));
}

TEST(Plan, EstimateAndSimulateGiveTheSameNanosecond) {
  for (const Job& job : jobs()) {
    const PlannerResult found = planned(job);
    const auto estimated = estimate(job, found.plan.strategy(), found.plan.only_pipeline().schedule);
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

// As integers, the parts of the breakdown sum to the iteration, and those of the memory to the peak of
// the fullest rank.
TEST(Plan, BreakdownsAddUp) {
  for (const Job& job : jobs()) {
    const PlannerResult found = planned(job);
    const Prediction& p = found.prediction;
    EXPECT_EQ(p.breakdown.total_ns(), p.iteration_ns) << found.plan.label();
    const MemoryBreakdown& m = p.memory;
    EXPECT_EQ(m.parameters + m.gradients + m.optimizer + m.activations + m.communication_buffers + m.framework,
              p.peak_memory_bytes);
    EXPECT_EQ(p.peak_memory_bytes, *std::max_element(p.peak_memory_bytes_per_stage.begin(), p.peak_memory_bytes_per_stage.end()));
    EXPECT_EQ(p.peak_memory_bytes_per_stage.size(), found.plan.only_pipeline().stages.size());
    EXPECT_LE(p.peak_memory_bytes, p.memory_limit_bytes);
  }
}

// A plan that does not fit still has a prediction.
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
  s.tp = 3;
  s.dp = 8;
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
      // A baseline that fits and lies in the space cannot be faster than the answer. With the generic engine and no
      // search part all presets do. (A recipe may need more memory than the margin leaves.)
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
  EXPECT_EQ(r.plan.only_pipeline().schedule.stages, 2);
  EXPECT_EQ(r.plan.only_pipeline().schedule.micro_batch, 2);
  EXPECT_EQ(r.search.by_dimension.at("tp").size(), 1U);
}

TEST(Plan, AnEngineBoundsTheSpace) {
  const char* cluster = "{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}";
  const char* training = "{sequence_length: 512, global_batch: 16}";
  const PlannerResult generic = planned(job("tiny-llama-test", cluster, training));
  const PlannerResult fsdp = planned(job("tiny-llama-test", cluster, training, "engine: fsdp2\n"));
  EXPECT_LT(fsdp.search.space_size, generic.search.space_size);
  EXPECT_EQ(fsdp.plan.only_pipeline().schedule.stages, 1);
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

// The hint blames the restriction: sharding is forbidden, and without it the model does not fit.
TEST(Plan, InfeasibleBlamesTheRestriction) {
  const Job bound = job("llama-3-8b", "{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}",
                        "{sequence_length: 4096, global_batch: 8}", "search: {fix: {zero: 0, tp: 1, pp: 1}}\n");
  const auto r = plan(bound, {});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::infeasible);
  EXPECT_THAT(r.error().hint, HasSubstr("without search.fix.zero: 0, "));
}

// The position of attention pieces in packed samples is not modelled.
TEST(Plan, PackedSamplesInPiecesAreRefused) {
  Job packed = job("tiny-llama-test", "{nodes: 1, devices_per_node: 2, device: h100-sxm-80gb}",
                   "{sequence_length: 512, global_batch: 16, lengths: {histogram: [[64, 3], [512, 1]], packing: packed}}");
  EXPECT_TRUE(plan(packed, {}).ok());
  for (LayerKind& kind : packed.model.kinds)
    for (Operator& op : kind.operators)
      if (op.kind == OperatorKind::attention) op.chunk = 128;
  const auto r = plan(packed, {});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(r.error().where, "training.lengths");
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
    EXPECT_EQ(part.search.reason, SearchEnd::node_limit);
    EXPECT_GE(part.search.gap, 0.0);
  }
}

// Without the layer-wise phase the uniform answer remains. The certificate makes no claim about the rest of the space.
TEST(Plan, APhaseCanBeLeftOut) {
  Job gpt = jobs()[1];
  const PlannerResult uniform = planned(gpt);
  ASSERT_EQ(uniform.search.phases.size(), 1U);
  EXPECT_EQ(uniform.search.phases[0].name, "uniform");
  EXPECT_EQ(uniform.search.count(SearchCounter::simulated, {kUniformPhase}), uniform.search.simulated);
  EXPECT_EQ(uniform.search.phases[0].best_ns, uniform.prediction.iteration_ns);
  EXPECT_EQ(uniform.search.phases[0].lower_bound_ns, uniform.prediction.iteration_ns);
  gpt.search.kind = SpaceKind::layerwise;
  PlannerOptions options;
  options.left_out_phases = {"layer-wise"};
  const PlannerResult part = planned(gpt, options);
  EXPECT_EQ(part.plan.label(), uniform.plan.label());
  EXPECT_EQ(part.search.reason, SearchEnd::phase_left_out);
  EXPECT_FALSE(part.search.optimal);
  EXPECT_EQ(part.search.lower_bound_ns, 0);
  ASSERT_EQ(part.search.phases.size(), 2U);
  EXPECT_TRUE(part.search.phases[1].left_out);
  EXPECT_FALSE(part.search.phases[1].complete);
  EXPECT_TRUE(part.search.phases[1].counters.empty());
}

TEST(Plan, RefusesAnUnknownPhase) {
  for (const char* name : {"layerwise", "uniform"}) {  // the first phase always runs
    PlannerOptions options;
    options.left_out_phases = {name};
    const auto r = plan(jobs().front(), options);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().kind, ErrorKind::usage);
    EXPECT_EQ(r.error().expected,
              "one of layer-wise, operators, operators by layer, each group, device groups, whole cluster, unlike pipelines, "
              "unequal replicas");
  }
}

TEST(Plan, RefusesPinsThatUnlikeDevicesDoNotVary) {
  Job job = jobs().front();
  job.search.devices = DeviceChoice::any;
  job.search.limit(Dimension::vpp, 2);
  const auto r = plan(job, {});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(r.error().found, "a restriction of vpp on unlike devices");
}

TEST(Plan, StagesOnUnlikeDevicesRunOneForwardOneBackwardAtLeast) {
  Job job = jobs().front();
  job.search.devices = DeviceChoice::any;
  job.search.allow(Dimension::schedule, {ScheduleKind::zb_h1});
  const auto r = plan(job, {});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(r.error().hint, HasSubstr("[1f1b, zb-h1]"));
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
}  // namespace espalier::planner
