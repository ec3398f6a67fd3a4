// SPDX-License-Identifier: Apache-2.0
// Tests a given configuration on several node groups, with stages across them.
#include <gtest/gtest.h>

#include "planner/estimate.h"
#include "planner/test_jobs.h"

namespace espalier::planner::scattered_estimate_test {
namespace {

const std::string kTraining = "{sequence_length: 1024, global_batch: 64, precision: fp16}";
const std::string kNetwork = "{kind: ethernet, bandwidth: 100Gb/s, nics_per_node: 1, latency: 10us, efficiency: 0.9}";

std::string groups(const std::string& a, const std::string& b) {
  return "{groups: [{nodes: 1, devices_per_node: 8, device: " + a + "}, {nodes: 1, devices_per_node: 8, device: " + b +
         "}], inter_group: " + kNetwork + "}";
}
std::string one_group(const std::string& device) {
  return "{nodes: 2, devices_per_node: 8, device: " + device + ", inter_node: " + kNetwork + "}";
}

Prediction of(const std::string& cluster, std::int32_t tp, std::int32_t stages) {
  const Job job = test::job("gpt2", cluster, kTraining);
  Strategy s;
  s.tp = tp;
  s.dp = 16 / tp / stages;
  Schedule schedule;
  schedule.stages = stages;
  schedule.micro_batch = 1;
  schedule.microbatches = 64 / s.dp;
  auto result = estimate(job, s, schedule);
  EXPECT_TRUE(result) << (result ? "" : result.error().message());
  return result ? result->prediction : Prediction{};
}

// Two equal groups count as one: a stage across them costs the same as on two nodes of one group.
TEST(SpreadEstimate, AlikeGroupsAreOne) {
  const Prediction split = of(groups("a100-sxm-80gb", "a100-sxm-80gb"), 1, 1), whole = of(one_group("a100-sxm-80gb"), 1, 1);
  EXPECT_NEAR(static_cast<double>(split.iteration_ns), static_cast<double>(whole.iteration_ns),
              0.002 * static_cast<double>(whole.iteration_ns));
  EXPECT_EQ(split.peak_memory_bytes, whole.peak_memory_bytes);
}

// All devices form one stage, so the slower half holds up the others; the smaller memory is the limit.
TEST(SpreadEstimate, TheSlowestMemberHoldsTheStage) {
  const Prediction mixed = of(groups("a100-sxm-80gb", "v100-sxm-16gb"), 1, 1), slow = of(one_group("v100-sxm-16gb"), 1, 1),
                   fast = of(one_group("a100-sxm-80gb"), 1, 1);
  EXPECT_EQ(mixed.breakdown.compute_ns, slow.breakdown.compute_ns);
  EXPECT_GT(mixed.breakdown.compute_ns, fast.breakdown.compute_ns);
  EXPECT_EQ(mixed.memory_limit_bytes, slow.memory_limit_bytes);
}

// The other order of groups is the same cluster.
TEST(SpreadEstimate, OrderOfGroupsDoesNotMatterToOneStage) {
  EXPECT_EQ(of(groups("a100-sxm-80gb", "v100-sxm-16gb"), 1, 1).breakdown.compute_ns,
            of(groups("v100-sxm-16gb", "a100-sxm-80gb"), 1, 1).breakdown.compute_ns);
}

}  // namespace
}  // namespace espalier::planner::scattered_estimate_test
