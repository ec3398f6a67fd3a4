// SPDX-License-Identifier: Apache-2.0
// Tests that the order in which a cluster lists its groups does not change plans.
#include "planner/sorted_groups.h"

#include <gtest/gtest.h>

#include "planner/test_jobs.h"

namespace espalier::planner {
namespace {

const std::string kRails =
    "{name: a, nodes: 2, devices_per_node: 2, device: a100-sxm-40gb, inter_node: {bandwidth: 25Gb/s, nics_per_node: 4, latency: "
    "20us}}";
const std::string kOnePort =
    "{name: b, nodes: 1, devices_per_node: 2, device: a100-sxm-40gb, inter_node: {bandwidth: 100Gb/s, nics_per_node: 1, latency: "
    "20us}}";

Job listed(const std::string& first, const std::string& second) {
  Job job = test::job(
      "gpt2", "{groups: [" + first + ", " + second + "], inter_group: {bandwidth: 100Gb/s, latency: 50us}, memory_limit: 6GiB}",
      "{sequence_length: 512, global_batch: 48, precision: bf16}", "search: {devices: all}\n");
  job.network = NetworkKind::flow;
  return job;
}

// Devices 0 and 1 of the group that is sorted first are 4 and 5 of a file that lists it last.
TEST(SortedGroups, DevicesKeepTheirNumbersInTheFile) {
  const Job one = listed(kRails, kOnePort), other = listed(kOnePort, kRails);
  const SortedGroups a = sorted_groups(one.cluster), b = sorted_groups(other.cluster);
  ASSERT_EQ(a.devices.size(), 6u);
  const bool turned = a.place.front() == 1;
  EXPECT_NE(turned, b.place.front() == 1);
  EXPECT_EQ((turned ? a : b).devices.back(), turned ? 3 : 1);
}

// A port for both devices of a node and a rail for each take equally long for a message of both. Flows are counted in
// units of the larger one, whichever link has the lower number.
TEST(SortedGroups, PlansUnderFlowDoNotDependOnTheOrder) {
  const PlannerResult one = test::planned(listed(kRails, kOnePort)), other = test::planned(listed(kOnePort, kRails));
  EXPECT_GT(one.prediction.iteration_ns, 0);
  EXPECT_EQ(one.prediction.iteration_ns, other.prediction.iteration_ns);
  EXPECT_EQ(one.search.lower_bound_ns, other.search.lower_bound_ns);
}

}  // namespace
}  // namespace espalier::planner
