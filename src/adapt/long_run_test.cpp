// SPDX-License-Identifier: Apache-2.0
#include "espalier/long_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "adapt/test_jobs.h"
#include "espalier/cluster_change.h"

namespace espalier::adapt {
namespace {

/// Returns a cluster of two nodes with one device each, `bandwidth` Gb/s between them.
std::string two_nodes(const std::string& bandwidth, const std::string& more = "") {
  return "{nodes: 2, devices_per_node: 1, device: a10, inter_node: {kind: ethernet, bandwidth: " + bandwidth +
         "Gb/s, nics_per_node: 1, latency: 0us}" + more + "}";
}

/// Returns a job on two nodes that provide 8 Gb/s = 1 GB/s with tokens and 1 Gb/s = 0.125 GB/s without.
Job behind_buckets(const std::string& size, const std::string& sustained = "1") {
  std::string rows;
  for (const char* node : {"node:0", "node:1"})
    rows += std::string(rows.empty() ? "" : ", ") + "{link: \"" + node +
            "\", token_bucket: {full: 8Gb/s, sustained: " + sustained + "Gb/s, bucket: " + size + "}}";
  return small_job(two_nodes("8", ", capacity: [" + rows + "]"));
}

constexpr double kSustained = 0.125;  // bytes per nanosecond

double step_at(const std::string& bandwidth) {
  const Job job = small_job(two_nodes(bandwidth));
  return static_cast<double>(simulate(job, small_plan(job, 1, 1, 2)).value().prediction.iteration_ns);
}

/// Returns the time p of a step without sending: it takes p + c at 8 Gb/s and p + 2·c at 4 Gb/s.
double pause_of_step() { return 2 * step_at("8") - step_at("4"); }

// A step sends one burst of B bytes and has p without traffic. The bucket holds more than the r·p that can flow in: T
// = p + B/r − p = B/r. The first steps run at full rate, as long as 560 GB of tokens last.
TEST(LongRun, ALargeBucketGivesNoMoreThanComesIn) {
  const Job job = behind_buckets("560GB");
  const LongRun run = long_run(job, small_plan(job, 1, 1, 2)).value();
  EXPECT_TRUE(run.settled);
  EXPECT_NEAR(static_cast<double>(run.first_ns), step_at("8"), 0.02 * step_at("8"));
  EXPECT_GT(run.bytes / kSustained, 2 * step_at("8"));  // true in the case described above
  EXPECT_NEAR(static_cast<double>(run.steps_ns), run.bytes / kSustained, 1e-6 * run.bytes / kSustained);
  EXPECT_DOUBLE_EQ(run.least_ns, run.bytes / kSustained);
  // Tokens fall by B − r·T₁ in a step of T₁ at full rate.
  const double first = static_cast<double>(run.first_ns), falls = run.bytes - kSustained * first;
  EXPECT_NEAR(run.lasts_s, 560e9 / falls * first * 1e-9, 2 * first * 1e-9);
}

// Buckets of 10 and 50 MB, less than r·p ≥ 90 MB, are full again before each burst: T = p + B/r − b/r. The two steps
// differ by 40 MB / (0.125 GB/s) = 320 ms, and last longer than the inflow requires.
TEST(LongRun, ASmallBucketIsFullBeforeEachBurst) {
  const Job ten = behind_buckets("10MB"), fifty = behind_buckets("50MB");
  const Plan plan = small_plan(ten, 1, 1, 2);
  ASSERT_LT(50e6, kSustained * pause_of_step());
  const LongRun a = long_run(ten, plan).value(), b = long_run(fifty, plan).value();
  EXPECT_NEAR(static_cast<double>(a.steps_ns - b.steps_ns), 320e6, 1e5);
  EXPECT_GT(static_cast<double>(b.steps_ns), b.bytes / kSustained);
}

// Pipelines send the boundary of a block: 64 samples · 1024 tokens · 1024 · 2 bytes = 134 MB a step and direction,
// which take 0.54 s at 2 Gb/s. The two stages compute for longer than that. The bucket never gets empty, and every
// step is like the first.
TEST(LongRun, APlanThatSendsLittleLosesNothing) {
  const Job job = behind_buckets("4GB", "2");
  const LongRun run = long_run(job, small_plan(job, 1, 2, 1)).value();
  EXPECT_NEAR(run.bytes, 64.0 * 1024 * 1024 * 2, 0.01 * run.bytes);
  ASSERT_LT(run.bytes / 0.25, static_cast<double>(run.first_ns));
  EXPECT_EQ(run.steps_ns, run.first_ns);
  EXPECT_TRUE(std::isinf(run.lasts_s));
}

// The job is priced at the sustained rate. Its estimate is that of a cluster of 1 Gb/s, an upper bound of the long
// run.
TEST(LongRun, PricesAreThoseOfTheSustainedRate) {
  const Job job = behind_buckets("560GB");
  ASSERT_TRUE(job.with_buckets.has_value());
  EXPECT_FALSE(job.cluster.changes());
  const Plan plan = small_plan(job, 1, 1, 2);
  const std::int64_t lasting = simulate(job, plan).value().prediction.iteration_ns;
  EXPECT_EQ(static_cast<double>(lasting), step_at("1"));
  EXPECT_LE(long_run(job, plan)->steps_ns, lasting);
  EXPECT_FALSE(job.notes.empty());
  EXPECT_EQ(job_of_plan(plan)->cluster, job.cluster);
  EXPECT_FALSE(long_run(small_job(two_nodes("8")), plan).ok());
}

TEST(LongRun, TheAnswerIsTheBestOfItsCandidatesAndNoBetterThanItsBound) {
  const Job job = behind_buckets("20GB");
  const LongRunAnswer answer = plan_for_long_run(job, {}).value();
  ASSERT_GE(answer.candidates.size(), 2u);
  for (const LongRunCandidate& c : answer.candidates) {
    EXPECT_GE(c.run.steps_ns, answer.candidates.front().run.steps_ns);
    EXPECT_GE(c.run.steps_ns, answer.bound_ns);
    EXPECT_GE(static_cast<double>(c.run.steps_ns) * (1 + 1e-6), c.run.least_ns) << c.plan.label();
  }
  EXPECT_EQ(content_hash(answer.answer.plan), content_hash(answer.candidates.front().plan));
  EXPECT_GE(answer.gap(), 0.0);
  PlannerOptions one;
  one.threads = 1;
  const LongRunAnswer again = plan_for_long_run(job, one).value();
  ASSERT_EQ(again.candidates.size(), answer.candidates.size());
  for (std::size_t i = 0; i < answer.candidates.size(); ++i) {
    EXPECT_EQ(content_hash(again.candidates[i].plan), content_hash(answer.candidates[i].plan));
    EXPECT_EQ(again.candidates[i].run.steps_ns, answer.candidates[i].run.steps_ns);
  }
}

// There are 2 nodes of 4 devices behind 40 Gb/s each: 1.25 GB/s a device, all 5 GB/s for a device that sends alone.
// node:1 has a bucket of 10 Gb/s, 2.5 Gb/s sustained. At its full rate this is 1.25/4 GB/s a device, half way 5 Gb/s,
// √(10·2.5), and in the long run 2.5 Gb/s.
TEST(LongRun, LevelsOfAGroupAtARate) {
  const Cluster whole =
      load_cluster(
          "{nodes: 2, devices_per_node: 4, device: a10, inter_node: {bandwidth: 40Gb/s, nics_per_node: 1}, capacity: "
          "[{link: \"node:1\", token_bucket: {full: 10Gb/s, sustained: 2.5Gb/s, bucket: 1GB}}]}",
          "test")
          .value();
  const auto level = [&](double share) { return at_bucket_rates(whole, share).inter.front(); };
  EXPECT_DOUBLE_EQ(level(1).bandwidth.count(), 1.25e9 / 4);
  EXPECT_DOUBLE_EQ(level(1).bandwidth_alone.count(), 1.25e9);
  EXPECT_DOUBLE_EQ(level(0.5).bandwidth.count(), 0.625e9 / 4);
  EXPECT_DOUBLE_EQ(level(0).bandwidth.count(), 0.3125e9 / 4);
  EXPECT_TRUE(at_bucket_rates(whole, 0).token_buckets.empty());
  EXPECT_TRUE(whole.changes());
}

}  // namespace
}  // namespace espalier::adapt
