// SPDX-License-Identifier: Apache-2.0
// Tests the certificate under the flow-level network. Branch and bound finds the plan that simulating every
// configuration with shared links finds, with the same nanosecond and the same text. Its lower bounds ignore sharing;
// they hold because sharing never makes a message faster.
#include <gtest/gtest.h>

#include <cstdio>

#include "random_problem.h"

namespace espalier::property::flow_search_test {
namespace {

const int kProblems = cases(60, 600);
constexpr double kMostConfigurations = 500;

TEST(FlowSearch, EqualsExhaustiveUnderSharedLinks) {
  double configurations = 0, simulated = 0;
  int problems = 0, slower = 0, others = 0;
  for (int i = 0; problems < kProblems && !::testing::Test::HasFailure(); ++i) {
    const RandomProblem p = random_problem(i);
    if (p.size > kMostConfigurations) continue;
    planner::SimulatedEvaluator closed(1), every(1, NetworkKind::flow), few(1, NetworkKind::flow);
    const search::Outcome alone = search::branch_and_bound(p.view(), closed, {});
    const search::Outcome all = search::exhaustive(p.view(), every, {});
    const search::Outcome clever = search::branch_and_bound(p.view(), few, {});
    EXPECT_EQ(text_of(all.best), text_of(clever.best)) << describe(p);
    EXPECT_TRUE(clever.complete);
    EXPECT_GE(few.lowered(), clever.simulations);  // seeds occur again as leaves
    EXPECT_EQ(all.best.has_value(), alone.best.has_value()) << describe(p);
    if (!all.best || !alone.best) continue;
    EXPECT_GE(all.best->iteration_ns, alone.best->iteration_ns) << describe(p);
    ++problems;
    slower += all.best->iteration_ns > alone.best->iteration_ns ? 1 : 0;
    others += all.best->configuration == alone.best->configuration ? 0 : 1;
    configurations += all.space_size;
    simulated += static_cast<double>(clever.simulations);
  }
  EXPECT_GT(slower, 0);
  std::printf("%d problems, %.0f configurations, %.0f simulated; %d slower where links are shared, %d with another plan\n",
              problems, configurations, simulated, slower, others);
}

}  // namespace
}  // namespace espalier::property::flow_search_test
