// SPDX-License-Identifier: Apache-2.0
// Compares max-min rates with networks solved by hand, then with the definition on random networks.
#include "solve/max_min.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "base/invariant.h"

namespace espalier::solve::max_min_test {
namespace {

constexpr double kUncapped = std::numeric_limits<double>::infinity();

struct TestFlow {
  double cap;
  std::vector<FlowLink> uses;
};

/// Returns a flow without a cap of its own over links, each used once.
TestFlow over(std::vector<std::int32_t> links) {
  TestFlow flow{kUncapped, {}};
  for (const std::int32_t link : links) flow.uses.push_back({link, 1.0});
  return flow;
}

TestFlow capped(double cap, std::vector<std::int32_t> links) {
  TestFlow flow = over(std::move(links));
  flow.cap = cap;
  return flow;
}

MaxMinProblem problem_of(const std::vector<double>& capacities, const std::vector<TestFlow>& flows) {
  MaxMinProblem problem;
  for (const double capacity : capacities) problem.add_link(capacity);
  for (const TestFlow& flow : flows) {
    problem.add_flow(flow.cap);
    for (const FlowLink& use : flow.uses) problem.add_use(use.link, use.weight);
  }
  return problem;
}

void expect_rates(const std::vector<double>& capacities, const std::vector<TestFlow>& flows, const std::vector<double>& rates) {
  MaxMinSolver solver;
  const std::vector<double>& found = solver.solve(problem_of(capacities, flows));
  ASSERT_EQ(found.size(), rates.size());
  for (std::size_t f = 0; f < rates.size(); ++f) EXPECT_NEAR(found[f], rates[f], 1e-9) << "flow " << f;
}

TEST(MaxMin, ThreeFlowsOverOneLinkHaveAThirdEach) { expect_rates({12}, {over({0}), over({0}), over({0})}, {4, 4, 4}); }

TEST(MaxMin, ALoneFlowRunsAtItsCap) { expect_rates({12}, {capped(5, {0})}, {5}); }

// Three flows cross a bottleneck of 6 with access links of 10 at both ends: 6 / 3 = 2 each, and the access links are
// not full.
TEST(MaxMin, Dumbbell) {
  const double access = 10;
  expect_rates({6, access, access, access, access, access, access}, {over({1, 0, 4}), over({2, 0, 5}), over({3, 0, 6})},
               {2, 2, 2});
}

// One flow uses all three links of capacity 1, and each link has one other flow: 1/2 for all four.
TEST(MaxMin, ParkingLot) { expect_rates({1, 1, 1}, {over({0, 1, 2}), over({0}), over({1}), over({2})}, {0.5, 0.5, 0.5, 0.5}); }

// With capacities 1, 2, 10, link 0 is halved and the long flow keeps 1/2. The others take what it leaves: 2 − 1/2 and
// 10 − 1/2.
TEST(MaxMin, ParkingLotWithUnequalLinks) {
  expect_rates({1, 2, 10}, {over({0, 1, 2}), over({0}), over({1}), over({2})}, {0.5, 0.5, 1.5, 9.5});
}

// Links AB, BC, CA have capacity 1. Each flow takes two hops and each link carries two flows: 1/2 each.
TEST(MaxMin, Triangle) { expect_rates({1, 1, 1}, {over({0, 1}), over({1, 2}), over({2, 0})}, {0.5, 0.5, 0.5}); }

// The share is 10/3, but two flows are capped at 1 and 2: the third has 10 − 3.
TEST(MaxMin, CapsBelowTheShareLeaveTheRest) { expect_rates({10}, {capped(1, {0}), capped(2, {0}), over({0})}, {1, 2, 7}); }

// Caps are 2, 3, 9, 9 on a link of 12. Level 3 leaves 12 − 2 − 3 = 7 for the two flows capped at 9: 3.5 each.
TEST(MaxMin, UnequalCaps) {
  expect_rates({12}, {capped(2, {0}), capped(3, {0}), capped(9, {0}), capped(9, {0})}, {2, 3, 3.5, 3.5});
}

// Nothing moves over a dead link; the stopped flow leaves link 1 to the other.
TEST(MaxMin, ADeadLinkStopsItsFlowsOnly) { expect_rates({0, 8}, {over({0, 1}), over({1}), over({0})}, {0, 8, 0}); }

// Flow 0 passes the link twice, flow 1 once: 2x + x = 9.
TEST(MaxMin, AFlowOverALinkTwice) { expect_rates({9}, {over({0, 0}), over({0})}, {3, 3}); }

// A flow that puts half of its bytes on the link shares it with a plain one: x/2 + x = 9.
TEST(MaxMin, WeightsBelowOne) { expect_rates({9}, {TestFlow{kUncapped, {{0, 0.5}}}, over({0})}, {6, 6}); }

// A ring over four NICs of 50 is one flow, as its slowest hop limits all hops. A message crosses NIC 2: 25 each, and
// the other NICs carry 25.
TEST(MaxMin, ARingAndAMessageShareOneNic) {
  expect_rates({50, 50, 50, 50}, {capped(50, {0, 1, 2, 3}), capped(50, {2})}, {25, 25});
}

// Three messages share NIC 2 with the ring, one shares NIC 0. NIC 2 gives 50/4, then NIC 0 has 50 − 12.5 left.
TEST(MaxMin, ARingHeldByOneNicLeavesTheOthersToMessages) {
  expect_rates({50, 50, 50, 50}, {capped(50, {0, 1, 2, 3}), capped(50, {2}), capped(50, {2}), capped(50, {2}), capped(50, {0})},
               {12.5, 12.5, 12.5, 12.5, 37.5});
}

// Link B of 1 carries three flows: 1/3 each. Link A of 1 is shared with one of them and gives the other 2/3.
TEST(MaxMin, TheTightestLinkIsFilledFirst) {
  expect_rates({1, 1}, {over({0}), over({0, 1}), over({1}), over({1})}, {2.0 / 3, 1.0 / 3, 1.0 / 3, 1.0 / 3});
}

// f0 is capped at 1, so f1 has 9 of link 0's 10; link 1 of 20 leaves f2 11.
TEST(MaxMin, ACapIsPassedOnAlongAChain) { expect_rates({10, 20}, {capped(1, {0}), over({0, 1}), over({1})}, {1, 9, 11}); }

// Four senders with uplinks 1, 3, 10, 10 share one downlink of 8: 1, then (8 − 1)/3 = 7/3 for the rest, below 3.
TEST(MaxMin, Incast) {
  expect_rates({8, 1, 3, 10, 10}, {over({1, 0}), over({2, 0}), over({3, 0}), over({4, 0})}, {1, 7.0 / 3, 7.0 / 3, 7.0 / 3});
}

// Two pods of two nodes with NICs of 4 share a trunk of 4. a→c and b→d cross the trunk, a→b does not: 4/2 on the
// trunk, and NIC a is full with 2 + 2.
TEST(MaxMin, OversubscribedPods) {
  const std::vector<double> capacities = {4, 4, 4, 4, 4, 4};  // out of a, out of b, trunk, into c, into d, into b
  expect_rates(capacities, {over({0, 2, 3}), over({1, 2, 4}), over({0, 5})}, {2, 2, 2});
}

TEST(MaxMin, SeparateNetworksDoNotTouch) { expect_rates({6, 8}, {over({0}), over({1}), over({0})}, {3, 8, 3}); }

TEST(MaxMin, NoFlowsAndNoLinks) { expect_rates({}, {}, {}); }

TEST(MaxMin, AFlowWithoutLinksRunsAtItsCap) { expect_rates({}, {capped(3, {})}, {3}); }

TEST(MaxMin, ACapIsKeptToTheBit) {
  MaxMinSolver solver;
  const double cap = 0.1 + 0.2;
  EXPECT_EQ(solver.solve(problem_of({10}, {capped(cap, {0}), over({0})}))[0], cap);
}

TEST(MaxMin, BoundlessFlowsAreABug) {
  MaxMinSolver solver;
  EXPECT_THROW(solver.solve(problem_of({}, {over({})})), base::InternalError);
  MaxMinProblem problem;
  EXPECT_THROW(problem.add_link(-1), base::InternalError);
  EXPECT_THROW(problem.add_use(0, 1), base::InternalError);
}

// A heavy flow that froze elsewhere leaves 1 − 1e6·1e-6·0.5 = 0.5 of the link for a flow of weight 1e-3.
TEST(MaxMin, SmallWeightsBesideLargeOnes) {
  const TestFlow heavy{0.5e-6, {{0, 1e6}}};
  const TestFlow light{kUncapped, {{0, 1e-3}}};
  expect_rates({1}, {heavy, light}, {0.5e-6, 500});
}

struct Drawn {
  std::vector<double> capacities;
  std::vector<TestFlow> flows;
};

Drawn draw(std::mt19937_64& engine) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(engine() % n); };
  Drawn drawn;
  const std::int64_t links = 1 + below(12);
  const std::int64_t flows = 1 + below(30);
  for (std::int64_t l = 0; l < links; ++l) drawn.capacities.push_back(below(10) == 0 ? 0.0 : static_cast<double>(1 + below(40)));
  for (std::int64_t f = 0; f < flows; ++f) {
    TestFlow flow{below(2) == 0 ? kUncapped : 0.25 * static_cast<double>(1 + below(60)), {}};
    const std::int64_t uses = 1 + below(5);
    for (std::int64_t u = 0; u < uses; ++u)
      flow.uses.push_back({static_cast<std::int32_t>(below(static_cast<std::uint64_t>(links))), below(4) == 0 ? 0.5 : 1.0});
    drawn.flows.push_back(flow);
  }
  return drawn;
}

/// Checks the definition: nothing is above cap or capacity, and each flow is at its cap, or on a full link without a
/// faster flow.
void expect_max_min(const Drawn& drawn, const std::vector<double>& rates) {
  constexpr double kSlack = 1e-9;
  std::vector<double> load(drawn.capacities.size(), 0.0), fastest(drawn.capacities.size(), 0.0);
  for (std::size_t f = 0; f < rates.size(); ++f)
    for (const FlowLink& use : drawn.flows[f].uses) {
      load[static_cast<std::size_t>(use.link)] += use.weight * rates[f];
      fastest[static_cast<std::size_t>(use.link)] = std::max(fastest[static_cast<std::size_t>(use.link)], rates[f]);
    }
  for (std::size_t l = 0; l < load.size(); ++l) ASSERT_LE(load[l], drawn.capacities[l] + kSlack) << "link " << l;
  for (std::size_t f = 0; f < rates.size(); ++f) {
    ASSERT_LE(rates[f], drawn.flows[f].cap);
    bool held = rates[f] == drawn.flows[f].cap;
    for (const FlowLink& use : drawn.flows[f].uses) {
      const auto l = static_cast<std::size_t>(use.link);
      held = held || (load[l] >= drawn.capacities[l] - kSlack && rates[f] >= fastest[l] - kSlack);
    }
    ASSERT_TRUE(held) << "flow " << f << " could be faster";
  }
}

TEST(MaxMin, RandomNetworksAgainstTheDefinition) {
  std::mt19937_64 engine(20240607);
  MaxMinSolver solver;  // one for all, which also tests the state that it keeps between problems
  for (int i = 0; i < 2000; ++i) {
    const Drawn drawn = draw(engine);
    expect_max_min(drawn, solver.solve(problem_of(drawn.capacities, drawn.flows)));
    if (HasFatalFailure()) FAIL() << "network " << i;
  }
}

}  // namespace
}  // namespace espalier::solve::max_min_test
