// SPDX-License-Identifier: Apache-2.0
// Tests plans over traces with lost links and with many events.
#include <gtest/gtest.h>

#include <algorithm>

#include "adapt/test_jobs.h"
#include "espalier/policy.h"

namespace espalier::adapt {
namespace {

Job job_with(const std::string& events, const std::string& nodes = "nodes: 3") {
  return small_job("{" + nodes + ", devices_per_node: 1, device: a100-sxm-80gb, events: [" + events + "]}");
}

// node:1 has no bandwidth from 100 s on. It counts as away, and plans run on the other two.
TEST(OverTime, ANodeBehindALostLinkIsAway) {
  const OverTime lost = plan_over_time(job_with("{time_s: 100, event: link, target: \"node:1\", value: 0}"), {}).value();
  const OverTime away = plan_over_time(job_with("{time_s: 100, event: leave, target: \"node:1\"}"), {}).value();
  EXPECT_EQ(lost.states, 2);
  ASSERT_EQ(lost.plans.size(), away.plans.size());
  for (std::size_t a = 0; a < lost.plans.size(); ++a) {
    EXPECT_EQ(lost.plans[a].iteration_ns, away.plans[a].iteration_ns);
    EXPECT_EQ(lost.plans[a].runs_s, away.plans[a].runs_s);
  }
}

// The only node needs no network.
TEST(OverTime, TheOnlyNodeNeedsNoLink) {
  const OverTime answer =
      plan_over_time(job_with("{time_s: 100, event: link, target: \"node:0\", value: 0}", "nodes: 1"), {}).value();
  EXPECT_EQ(answer.plans[answer.best_static].runs_s, answer.length_s);
}

// Two sites lose their link: each can train alone.
TEST(OverTime, SitesThatLoseEachOtherPlanAlone) {
  const Job job = small_job(
      "{groups: [{nodes: 2, devices_per_node: 1, device: a100-sxm-80gb}, {nodes: 1, devices_per_node: 1, device: "
      "a100-sxm-80gb}], "
      "links: [{from: a, to: b, bandwidth: 100Gb/s, both: true}], events: [{time_s: 1000, event: link, target: a-b, value: 0}, "
      "{time_s: 1000, event: link, target: b-a, value: 0}]}",
      "{devices: any}");
  const OverTime answer = plan_over_time(job, {}).value();
  EXPECT_EQ(answer.states, 2);
  EXPECT_TRUE(std::any_of(answer.plans.begin(), answer.plans.end(), [](const TracePlan& p) {
    return p.nodes_by_group == std::vector<std::int64_t>{2, 0};
  }));
}

// There are 4,000 events. Replaying the history, or reading it again, for each of them would take a minute.
TEST(OverTime, ManyEventsArePlannedOver) {
  std::string events;
  for (int k = 0; k < 4000; ++k)
    events += std::string(k == 0 ? "" : ", ") + "{time_s: " + std::to_string(100 * k) +
              ", event: " + (k % 2 == 0 ? "leave" : "join") + ", target: \"node:1\"}";
  const OverTime answer = plan_over_time(job_with(events), {}).value();
  EXPECT_EQ(answer.epochs, 4000);
  EXPECT_EQ(answer.states, 2);
}

}  // namespace
}  // namespace espalier::adapt
