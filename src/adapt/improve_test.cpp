// SPDX-License-Identifier: Apache-2.0
// Improves a present configuration on eight devices: the best plan is no slower, every listed change gains, and a
// configuration that does not run gets an answer.
#include "espalier/improve.h"

#include <gtest/gtest.h>

#include "espalier/configuration.h"

namespace espalier::adapt::improve_test {
namespace {

Job small_job() {
  auto job = load_job(
      R"({model: {model_type: llama, hidden_size: 1024, intermediate_size: 2816, num_hidden_layers: 8, num_attention_heads: 16, vocab_size: 32000},
          cluster: {nodes: 1, devices_per_node: 4, device: a100-sxm-40gb}, training: {sequence_length: 1024, global_batch: 16}, engine: megatron-core})",
      "job", "", {});
  EXPECT_TRUE(job.ok()) << (job ? "" : job.error().message());
  return *job;
}

PresentConfiguration present_of(const Job& job, std::int32_t tp) {
  Strategy s;
  s.tp = tp;
  s.dp = s.shard = 0;
  Schedule c;
  c.microbatches = 0;
  complete_configuration(job, s, c);
  auto result = estimate(job, s, c);
  if (result) return {s, c, result->plan};
  Error error = result.error();
  error.kind = ErrorKind::check_failed;
  return {s, c, error};
}

TEST(Improve, ChangesGainAndTheBestIsNoSlower) {
  const Job job = small_job();
  PlannerOptions options;
  options.threads = 1;
  const auto answer = improve(job, present_of(job, 4), options);
  ASSERT_TRUE(answer.ok()) << answer.error().message();
  ASSERT_TRUE(answer->present && answer->best);
  const std::int64_t now = answer->present->prediction.iteration_ns, best = answer->best->prediction.iteration_ns;
  EXPECT_LE(best, now);
  EXPECT_NEAR(answer->gain, 1 - static_cast<double>(best) / static_cast<double>(now), 1e-12);
  ASSERT_FALSE(answer->changes.empty());
  for (const SingleChange& change : answer->changes) {
    EXPECT_LT(change.iteration_ns, now) << change.change;
    EXPECT_GE(change.iteration_ns, best) << change.change;  // changes are part of the space
    EXPECT_TRUE(change.fits) << change.change;
  }
}

TEST(Improve, BrokenRulesAreAnswered) {
  const Job job = small_job();
  const auto answer = improve(job, present_of(job, 3), {});  // 4 devices, 16 heads
  ASSERT_TRUE(answer.ok()) << answer.error().message();
  EXPECT_FALSE(answer->present);
  EXPECT_NE(answer->broken.find("tp 3"), std::string::npos);
  ASSERT_TRUE(answer->best);
  bool tp = false;
  for (const SingleChange& change : answer->changes) tp = tp || change.change == "tp 3 -> 2";
  EXPECT_TRUE(tp);
}

/// Returns a job on 4 devices of 4 GB. The states of its 134 M parameters fit only on the host.
Job tight_job() {
  auto job = load_job(
      R"({model: {model_type: llama, hidden_size: 1024, intermediate_size: 2816, num_hidden_layers: 8, num_attention_heads: 16, vocab_size: 32000},
          cluster: {nodes: 1, devices_per_node: 4, device: a100-sxm-40gb, memory_limit: 2.6GiB, host: {memory: 256GiB, memory_bandwidth: 200GB/s, bandwidth: 25GB/s}},
          training: {sequence_length: 1024, global_batch: 16}, engine: megatron-core})",
      "job", "", {});
  EXPECT_TRUE(job.ok()) << (job ? "" : job.error().message());
  return *job;
}

// A search leaves offload out unless the job names it. A present plan that offloads is in the space, so that the
// answer is no worse than it.
TEST(Improve, TheSpaceHoldsThePresentPlan) {
  const Job job = tight_job();
  Strategy s;
  s.dp = 4;
  s.shard = 0;
  s.zero = ZeroStage::optimizer;
  s.offload = Offload::optimizer;
  s.recompute = {RecomputeKind::full, 0};
  Schedule c;
  c.microbatches = 0;
  complete_configuration(job, s, c);
  const auto now = estimate(job, s, c);
  ASSERT_TRUE(now.ok()) << now.error().message();
  const auto answer = improve(job, {s, c, now->plan, s.zero, s.overlap}, {});
  ASSERT_TRUE(answer.ok()) << answer.error().message();
  EXPECT_TRUE(answer->widened.contains("offload"));
  if (!now->prediction.fits) GTEST_SKIP() << "the present plan does not fit";
  ASSERT_TRUE(answer->best);
  EXPECT_LE(answer->best->prediction.iteration_ns, now->prediction.iteration_ns);
}

// Stages cut by hand are outside the space. If nothing else fits, the present plan is the answer.
TEST(Improve, ThePresentPlanIsTheAnswerWhereNothingElseFits) {
  Job job = small_job();
  job.search.allow(Dimension::micro_batch, {16});
  job.search.allow(Dimension::tp, {1});
  job.search.allow(Dimension::dp, {2});  // pp 2
  job.search.forbid(Dimension::recompute, {1, 2});
  job.search.forbid(Dimension::vpp, {2, 3, 4, 5, 6, 7, 8});
  const auto answer = improve(job, present_of(job, 4), {});
  ASSERT_TRUE(answer.ok()) << answer.error().message();
  ASSERT_TRUE(answer->best);
  EXPECT_LE(answer->best->prediction.iteration_ns, answer->present->prediction.iteration_ns);
}

}  // namespace
}  // namespace espalier::adapt::improve_test
