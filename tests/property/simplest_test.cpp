// SPDX-License-Identifier: Apache-2.0
// Tests "the simplest plan within x %" against simulating everything. Among all configurations that take at most (1 +
// x) times the best, the search under search/preference.h prefers the one of fewest dimensions. Then it prefers least
// time, then first text, to the nanosecond.
#include <gtest/gtest.h>

#include "plan/dimensions_used.h"
#include "random_problem.h"

namespace espalier::property::simplest_test {
namespace {

const int kProblems = cases(120, 1200);

/// Returns the preferred candidate of all that fit, in the order of time and text that `exhaustive` returns.
std::optional<search::Candidate> by_hand(const search::Outcome& all, std::int64_t slowest_ns) {
  std::optional<search::Candidate> best;
  for (const search::Candidate& c : all.simulated) {
    if (c.iteration_ns > slowest_ns) break;
    const auto dimensions = [](const search::Candidate& x) {
      return dimensions_used(x.configuration.strategy, x.configuration.schedule);
    };
    if (!best || dimensions(c) < dimensions(*best)) best = c;
  }
  return best;
}

TEST(Simplest, EqualsExhaustive) {
  int judged = 0, simpler = 0;
  for (int i = 0; i < kProblems; ++i) {
    const RandomProblem p = random_problem(7'000 + i);
    planner::SimulatedEvaluator evaluator(1);
    const search::Outcome all = search::exhaustive(p.view(), evaluator, {});
    if (!all.best || all.simulated.size() >= 4096) continue;
    ++judged;
    for (const double within : {0.0, 0.01, 0.3}) {
      search::Options options;
      const auto slowest = static_cast<std::int64_t>(static_cast<double>(all.best->iteration_ns) * (1.0 + within));
      options.preference = search::Preference{slowest};
      options.seeds = {all.best->configuration};
      search::Options first;
      first.keep_within = within;
      const search::Outcome fastest = search::branch_and_bound(p.view(), evaluator, first);
      if (i % 2 == 0) options.known = &fastest.known;  // its bounds save work and change nothing
      const search::Outcome found = search::branch_and_bound(p.view(), evaluator, options);
      const auto expected = by_hand(all, slowest);
      EXPECT_EQ(text_of(found.best), text_of(expected)) << within << "\n" << describe(p);
      EXPECT_TRUE(found.complete);
      if (expected && !(expected->configuration == all.best->configuration)) ++simpler;
    }
  }
  EXPECT_GT(judged, kProblems / 4);
  EXPECT_GT(simpler, judged / 10);  // otherwise the test would be too weak
}

// An external bound removes only candidates that exceed it.
TEST(Simplest, SlowestIsNoAnswer) {
  for (int i = 0; i < kProblems / 4; ++i) {
    const RandomProblem p = random_problem(9'000 + i);
    planner::SimulatedEvaluator evaluator(1);
    const search::Outcome plain = search::branch_and_bound(p.view(), evaluator, {});
    if (!plain.best) continue;
    search::Options options;
    options.slowest_ns = plain.best->iteration_ns;
    EXPECT_EQ(text_of(search::branch_and_bound(p.view(), evaluator, options).best), text_of(plain.best)) << describe(p);
    options.slowest_ns = plain.best->iteration_ns - 1;
    EXPECT_FALSE(search::branch_and_bound(p.view(), evaluator, options).best.has_value()) << describe(p);
  }
}

}  // namespace
}  // namespace espalier::property::simplest_test
