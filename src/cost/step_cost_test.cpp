// SPDX-License-Identifier: Apache-2.0
#include "cost/step_cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/invariant.h"

namespace espalier::cost {
namespace {

constexpr double kUs = 1e-6;

Step compute(StepPart part = StepPart::forward) {
  Step s;
  s.part = part;
  return s;
}
StepCost takes(double us, std::int32_t term = 0) {
  StepCost c;
  c.compute_s = us * kUs;
  c.term = term;
  return c;
}
Step traffic(Placement placement, std::int32_t first = -1, std::int32_t last = -1) {
  Step s;
  s.traffic = {CollectiveKind::all_reduce, GroupKind::tensor, 100, 1};
  s.placement = placement;
  s.first = first;
  s.last = last;
  return s;
}
StepCost moves(double us, double beside_us = 0, std::int32_t term = 0) {
  StepCost c;
  c.communication_s = us * kUs;
  c.beside_s = beside_us * kUs;
  c.term = term;
  return c;
}

// 10 µs of compute, 4 of traffic alone, 7 of traffic over another 5 of compute: 2 of them show. In all 10 + 5
// compute, 4 + 2 exposed, 5 hidden.
PhaseSteps example() {
  PhaseSteps p;
  p.add(compute(), takes(10, 1));
  p.add(traffic(Placement::after), moves(4, 0, 2));
  p.add(traffic(Placement::beside, 3, 3), moves(7, 5, 3));
  p.add(compute(), takes(5, 4));
  return p;
}

TEST(StepCost, SmallestExample) { EXPECT_EQ(phase_time(example()), (PhaseTime{15000, 6000, 0, 5000})); }

TEST(StepCost, StepsFollowEachOtherAndRunBesideEachOther) {
  const auto spans = step_spans(example());
  EXPECT_EQ(spans[0].compute_end_ns, 10000);
  EXPECT_EQ(spans[1].traffic_start_ns, 10000);
  EXPECT_EQ(spans[1].traffic_end_ns, 14000);
  EXPECT_EQ(spans[2].traffic_start_ns, 14000);
  EXPECT_EQ(spans[2].traffic_end_ns, 21000);
  EXPECT_EQ(spans[3].compute_start_ns, 14000);
  EXPECT_EQ(spans[3].compute_end_ns, 19000);
}

// The GPU waits for what is left of the launches: 30 − 15 − 6. Fitted waits of the network are exposed: 30 − 15 − 8.
TEST(StepCost, WaitsAreWhatIsLeft) {
  PhaseSteps p = example();
  p.host_s = 30 * kUs;
  EXPECT_EQ(phase_time(p).other_ns, 9000);
  p.network_wait_s = 2 * kUs;
  EXPECT_EQ(phase_time(p), (PhaseTime{15000, 8000, 7000, 5000}));
}

// The halves of a split backward do not count what they hide.
TEST(StepCost, HiddenTimeIsStatedWhereItIsCounted) {
  PhaseSteps p = example();
  p.counts_hidden = false;
  EXPECT_EQ(phase_time(p), (PhaseTime{15000, 6000, 0, 0}));
}

// κ = 2 for both: 3 µs of traffic take 6 over 5 µs of compute, of which 3 are done by then. With 2 more it is 8 in
// all, 3 exposed, 0 hidden.
TEST(StepCost, BothSlowEachOtherDown) {
  PhaseSteps p;
  p.add(traffic(Placement::beside, 1, 1), moves(3, 5, 1));
  p.costs[0].slowdown = {2.0, 2.0};
  p.add(compute(), takes(5, 2));
  EXPECT_EQ(phase_time(p), (PhaseTime{5000, 3000, 0, 0}));
  const auto spans = step_spans(p);
  EXPECT_EQ(spans[0].traffic_end_ns, 6000);
  EXPECT_EQ(spans[1].compute_end_ns, 8000);
}

// 1/κ_c + 1/κ_w < 1: they run one after the other, compute first.
TEST(StepCost, StrongerFactorsRunInTurn) {
  PhaseSteps p;
  p.add(traffic(Placement::beside, 1, 1), moves(3, 5, 1));
  p.costs[0].slowdown = {3.0, 3.0};
  p.add(compute(), takes(5, 2));
  EXPECT_EQ(phase_time(p), (PhaseTime{5000, 3000, 0, 0}));
  const auto spans = step_spans(p);
  EXPECT_EQ(spans[1].compute_end_ns, 5000);
  EXPECT_EQ(spans[0].traffic_start_ns, 5000);
  EXPECT_EQ(spans[0].traffic_end_ns, 8000);
}

// Three steps of 0.4 ns: together 1.2 ns round to 1, each by itself to 0. Steps on top of a phase do not shorten its
// waits.
TEST(StepCost, RoundedTogetherOrEachForItself) {
  for (const auto& [counted, expected] : {std::pair{Counted::summed, 1}, {Counted::each, 0}}) {
    PhaseSteps p;
    for (int i = 0; i < 3; ++i) {
      p.add(compute(), takes(0.0004, i));
      p.costs.back().counted = counted;
    }
    EXPECT_EQ(phase_time(p).compute_ns, expected);
  }
  PhaseSteps p = example();
  p.host_s = 30 * kUs;
  p.add(traffic(Placement::after), moves(5));
  p.costs.back().counted = Counted::on_top;
  EXPECT_EQ(phase_time(p), (PhaseTime{15000, 11000, 9000, 5000}));
}

// 1e16 + 1 + 1 is 1e16 in doubles, 1 + 1 + 1e16 is 1e16 + 2: the order of terms decides, not that of the list.
TEST(StepCost, TermsDecideTheOrderOfTheSum) {
  for (const bool large_first : {false, true}) {
    PhaseSteps p;
    p.add(compute(), takes(1e7, large_first ? 0 : 5));
    for (int i = 1; i < 3; ++i) p.add(compute(), takes(1e-9, i));
    double in_order = 0;
    if (large_first)
      in_order = 1e7 * kUs + 1e-9 * kUs + 1e-9 * kUs;
    else
      in_order = 1e-9 * kUs + 1e-9 * kUs + 1e7 * kUs;
    EXPECT_EQ(phase_time(p).compute_ns, std::llround(in_order * 1e9));
  }
}

TEST(StepCost, BytesAreThoseOfAllMessages) {
  PhaseSteps p = example();
  EXPECT_EQ(bytes_of(p), 200);
  p.steps[1].traffic.times = 3;
  EXPECT_EQ(bytes_of(p), 400);
}

TEST(StepCost, NegativeBytesAndTimesAreBugs) {
  PhaseSteps p;
  Step bad = traffic(Placement::after);
  bad.traffic.bytes = -1;
  EXPECT_THROW(p.add(bad, moves(1)), base::InternalError);
  EXPECT_THROW(p.add(compute(), takes(-1)), base::InternalError);
  EXPECT_THROW(p.add(compute(), moves(1)), base::InternalError);  // a time of traffic, but no traffic
}

}  // namespace
}  // namespace espalier::cost
