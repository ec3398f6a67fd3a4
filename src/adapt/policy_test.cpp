// SPDX-License-Identifier: Apache-2.0
// Tests the policy by hand on two plans. Also tests its proven factor on 50 made-up traces, and that it is never much
// worse than a plan that never changes.
#include "adapt/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

namespace espalier::adapt {
namespace {

Epochs two_plans(std::vector<double> lengths, std::vector<std::vector<double>> loss, double move = 10) {
  Epochs e;
  e.length_s = std::move(lengths);
  e.loss = std::move(loss);
  e.forced_s.assign(e.length_s.size(), {0, 0});
  e.hit_s = e.forced_s;
  e.move_s = {{0, move}, {move, 0}};
  return e;
}

// Plan 0 loses half of every second for 100 s. After 20 s it has lost 10 s, the cost of a move, and is left: 10 + 10
// = 20 s. The clairvoyant paid 10 s (or began with the other plan for nothing).
TEST(Policy, LeavesAPlanWhenItHasLostAMovesWorth) {
  const Epochs e = two_plans({50, 100}, {{0, 1}, {0.5, 0}});
  const PolicyRun online = online_run(e, 0, {});
  EXPECT_EQ(online.decisions, (std::vector<TraceDecision>{{0, 0}, {70, 1}}));
  EXPECT_DOUBLE_EQ(online.lost_s, 10);
  EXPECT_DOUBLE_EQ(online.moves_s, 10);
  const PolicyRun best = clairvoyant_run(e);
  EXPECT_DOUBLE_EQ(best.cost_s(), 10);
  EXPECT_EQ(best.decisions, (std::vector<TraceDecision>{{0, 0}, {50, 1}}));
}

// 16 s at half speed lose 8 s, less than a move: neither moves.
TEST(Policy, SitsOutWhatIsShort) {
  const Epochs e = two_plans({50, 16, 50}, {{0, 1}, {0.5, 0}, {0, 1}});
  EXPECT_EQ(online_run(e, 0, {}).decisions.size(), 1u);
  EXPECT_DOUBLE_EQ(online_run(e, 0, {}).cost_s(), 8);
  EXPECT_DOUBLE_EQ(clairvoyant_run(e).cost_s(), 8);
}

// Losses of up to 2 % for a week are noise. The plan does not change, whichever is ahead.
TEST(Policy, NoChangeInsideTheWindow) {
  std::mt19937 random(1);
  Epochs e = two_plans({}, {});
  for (int k = 0; k < 7 * 24; ++k) {
    e.length_s.push_back(3600);
    const double noise = static_cast<double>(random() % 1000) / 1000 * 0.02;
    e.loss.push_back(k % 2 == 0 ? std::vector<double>{noise, 0} : std::vector<double>{0, noise});
    e.forced_s.push_back({0, 0});
    e.hit_s.push_back({0, 0});
  }
  EXPECT_TRUE(online_run(e, 0, {0.02, 0}).decisions.size() == 1);
  EXPECT_GT(online_run(e, 0, {0, 0}).decisions.size(), 1u) << "without the window it would have moved";
}

// The change is noticed 5 s late: another 5 s at half speed, another 2.5 s lost.
TEST(Policy, DetectionDelays) {
  const Epochs e = two_plans({50, 100}, {{0, 1}, {0.5, 0}});
  const PolicyRun late = online_run(e, 0, {0.02, 5});
  EXPECT_DOUBLE_EQ(late.lost_s, 12.5);
  EXPECT_EQ(late.decisions.back().at_s, 75);
}

// Replacing nodes under plan 0 takes 4 s, and staying costs as much. Twelve seconds would cost as much as a move, so
// it moves instead.
TEST(Policy, ForcedPausesArePaidOrFledFrom) {
  Epochs e = two_plans({50, 100}, {{0, 0.1}, {0, 0}});
  e.forced_s[1] = {4, 0};
  EXPECT_DOUBLE_EQ(online_run(e, 0, {}).cost_s(), 4);
  e.forced_s[1] = {12, 0};
  const PolicyRun fled = online_run(e, 0, {});
  EXPECT_DOUBLE_EQ(fled.forced_s, 0);
  EXPECT_DOUBLE_EQ(fled.moves_s, 10);
  // The other plan has lost 25 s by then and loses no less now: f is paid.
  e.loss[0][1] = 0.5;
  EXPECT_DOUBLE_EQ(online_run(e, 0, {}).forced_s, 12);
}

// Plan 0 loses 40 s of work when its nodes leave. The clairvoyant goes to the other plan before, for 10 s and 1 s of
// lower speed. Online loses them and stays: the threshold is 10 + 40.
TEST(Policy, WhoKnowsLeavesBeforeStatesAreLost) {
  Epochs e = two_plans({50, 10, 50}, {{0, 0.1}, {0, 0.1}, {0, 0.9}});
  e.hit_s[1] = {40, 0};
  EXPECT_DOUBLE_EQ(online_run(e, 0, {}).cost_s(), 40);
  const PolicyRun best = clairvoyant_run(e);
  // It begins with plan 1 (5 s of lower speed) and goes to plan 0 after the loss, for 10 s.
  EXPECT_DOUBLE_EQ(best.cost_s(), 15);
  EXPECT_DOUBLE_EQ(threshold_of(e), 50);
  EXPECT_DOUBLE_EQ(factor_of(e), 2 * (50 + 40 + 10) / 10.0);
}

TEST(Policy, OnePlanStays) {
  Epochs e;
  e.length_s = {10, 10};
  e.loss = {{0}, {0.5}};
  e.forced_s = {{0}, {3}};
  e.hit_s = {{0}, {2}};
  e.move_s = {{0}};
  EXPECT_DOUBLE_EQ(online_run(e, 0, {}).cost_s(), 10);
  EXPECT_DOUBLE_EQ(clairvoyant_run(e).cost_s(), 10);
  EXPECT_DOUBLE_EQ(factor_of(e), 1);
}

Epochs made_up(std::mt19937& random, bool losses) {
  const auto unit = [&] { return static_cast<double>(random() % 10'000) / 10'000; };
  Epochs e;
  const std::size_t plans = 2 + random() % 5, epochs = 20 + random() % 300;
  e.move_s.assign(plans, std::vector<double>(plans, 0.0));
  const double restart = 20 + 280 * unit();
  for (std::size_t a = 0; a < plans; ++a)
    for (std::size_t b = 0; b < plans; ++b)
      if (a != b) e.move_s[a][b] = restart * (1 + unit());
  for (std::size_t k = 0; k < epochs; ++k) {
    e.length_s.push_back(-std::log(1 - unit()) * (k % 3 == 0 ? 2000 : 200));
    std::vector<double> loss;
    for (std::size_t a = 0; a < plans; ++a) loss.push_back(random() % 4 == 0 ? 1.0 : unit() * unit());
    loss[random() % plans] = 0;
    e.loss.push_back(loss);
    e.forced_s.emplace_back(plans, 0.0);
    if (k > 0 && random() % 3 == 0) e.forced_s.back()[random() % plans] = restart;
    e.hit_s.emplace_back(plans, 0.0);
    if (losses && k > 0 && random() % 8 == 0) e.hit_s.back()[random() % plans] = 60;
  }
  return e;
}

/// Returns the least cost over all assignments of plans to epochs and to the moments between them.
double by_hand(const Epochs& e) {
  const std::size_t n = 2 * e.length_s.size() - 1, k = e.plans();
  const auto way = [&](std::size_t a, std::size_t b, double stay) { return a == b ? stay : e.move_s[a][b]; };
  double best = 1e300;
  std::vector<std::size_t> at(n, 0);
  while (true) {
    double cost = e.loss[0][at[0]] * e.length_s[0];
    for (std::size_t i = 1; 2 * i < n; ++i) {
      const std::size_t before = at[2 * i - 2], between = at[2 * i - 1], now = at[2 * i];
      cost += way(before, between, 0) + e.hit_s[i][between] + way(between, now, e.forced_s[i][now]);
      cost += e.loss[i][now] * e.length_s[i];
    }
    best = std::min(best, cost);
    std::size_t i = 0;
    while (i < n && ++at[i] == k) at[i++] = 0;
    if (i == n) return best;
  }
}

TEST(Policy, TheClairvoyantIsTheBestOfAllAssignments) {
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    Epochs e = made_up(random, round % 2 == 0);
    const std::size_t n = 2 + random() % 2;
    e.length_s.resize(n);
    e.loss.resize(n);
    e.forced_s.resize(n);
    e.hit_s.resize(n);
    EXPECT_NEAR(clairvoyant_run(e).cost_s(), by_hand(e), 1e-6);
  }
}

// Both plans lose 6 s, then another 3 s. The f of 2 s brings both counters to the threshold of 10, so a new phase
// begins. Plan 0 loses no more than the other, pays f and stays. It has lost 9 s without a move, so its moves do not
// bound its loss; the best static plan lost as much.
TEST(Policy, APhaseMayEndWithoutAMove) {
  Epochs e = two_plans({20, 30, 10}, {{0.3, 0.3}, {0.1, 0.1}, {0.1, 0.1}});
  e.forced_s[2] = {2, 2};
  const PolicyRun online = online_run(e, 0, {0, 0});
  EXPECT_EQ(online.decisions.size(), 1u);
  EXPECT_DOUBLE_EQ(online.cost_s(), 12);
  EXPECT_DOUBLE_EQ(static_run(e, 0).cost_s(), 12);
}

// A bound without late detection and hysteresis would be wrong. One plan loses nothing; a run on the other notices
// that after 1,000 s.
TEST(Policy, TheBoundCountsWhatIsNotNoticed) {
  const Epochs e = two_plans({50, 3000}, {{0, 1}, {1, 0}});
  const PolicyRules rules{0.02, 1000};
  const double best = clairvoyant_run(e).cost_s(), lost = online_run(e, 0, rules).cost_s();
  const PolicyBound bound = bound_of(e, rules, best);
  EXPECT_DOUBLE_EQ(best, 10);
  EXPECT_DOUBLE_EQ(lost, 1020);
  EXPECT_GT(lost, bound.factor * (bound.clairvoyant_s + bound.cheapest_move_s)) << "4 · 20 s";
  EXPECT_DOUBLE_EQ(bound.noise_s, 61);
  EXPECT_DOUBLE_EQ(bound.unnoticed_s, 2000);
  EXPECT_LE(lost, bound.lost_s());
}

// The bound also holds if every plan loses something at every moment, as plans chosen from a larger set do, and if
// states are lost and pauses forced.
TEST(Policy, HoldsWhatIsStatedOnTwoThousandTraces) {
  std::mt19937 random(17);
  for (int trace = 0; trace < 2000; ++trace) {
    Epochs e = made_up(random, trace % 2 == 0);
    if (trace % 3 != 0)
      for (auto& row : e.loss)
        for (double& loss : row) loss = loss > 0 ? loss : static_cast<double>(random() % 1000) / 2000;
    const PolicyRules rules{trace % 2 == 0 ? 0.02 : 0.0, trace % 5 == 0 ? 40.0 : 0.0};
    const PolicyRun best = clairvoyant_run(e), online = online_run(e, random() % e.plans(), rules);
    const PolicyBound bound = bound_of(e, rules, best.cost_s());
    EXPECT_LE(online.cost_s(), bound.lost_s()) << "trace " << trace;
    if (trace % 2 == 0) continue;
    double still = 1e300;
    for (std::size_t a = 0; a < e.plans(); ++a) still = std::min(still, static_run(e, a).cost_s());
    EXPECT_LE(online.cost_s(),
              still + 2 * online.moves_s + online.forced_s + cheapest_move(e) + bound.noise_s + bound.unnoticed_s)
        << "trace " << trace;
  }
}

TEST(Policy, IsWithinItsFactorOnFiftyTraces) {
  std::mt19937 random(11);
  double regret = 0, worst = 0;
  int traces = 0;
  for (; traces < 50; ++traces) {
    const bool losses = traces % 5 == 0;
    const Epochs e = made_up(random, losses);
    const PolicyRules rules{traces % 2 == 0 ? 0.02 : 0.0, traces % 3 == 0 ? 15.0 : 0.0};
    const PolicyRun best = clairvoyant_run(e), online = online_run(e, 0, rules);
    double time = 0, still = 1e300;
    for (const double length : e.length_s) time += length;
    for (std::size_t a = 0; a < e.plans(); ++a) still = std::min(still, static_run(e, a).cost_s());
    EXPECT_GE(online.cost_s(), best.cost_s() - 1e-6);
    EXPECT_GE(still, best.cost_s() - 1e-6);
    EXPECT_LE(online.cost_s(), bound_of(e, rules, best.cost_s()).lost_s()) << "trace " << traces;
    regret += (online.cost_s() - best.cost_s()) / time;
    worst = std::max(worst, online.cost_s() / std::max(best.cost_s(), cheapest_move(e)));
    if (losses) continue;
    // Online is worse than the best static plan by at most its moves (twice, and one), noise, and the unnoticed
    // changes (**).
    const double slack = rules.hysteresis * time + rules.detection_s * static_cast<double>(e.length_s.size());
    EXPECT_LE(online.lost_s, online.moves_s + online.forced_s + cheapest_move(e) + slack) << "trace " << traces;
    EXPECT_LE(online.cost_s(), still + online.moves_s + slack) << "trace " << traces;
  }
  RecordProperty("mean_regret", std::to_string(regret / traces));
  std::printf("50 traces: mean regret %.4f of the time, worst ratio %.2f\n", regret / traces, worst);
}

}  // namespace
}  // namespace espalier::adapt
