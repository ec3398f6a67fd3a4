// SPDX-License-Identifier: Apache-2.0
// Tests that the number of threads changes nothing: not the answer, not one counter, not the order of simulations.
// Repeating changes nothing either. A search that stops early reports its progress, and never claims too much.
#include <gtest/gtest.h>

#include "random_problem.h"

namespace espalier::property::threads_test {
namespace {

/// Returns everything in an Outcome as text.
std::string all_of(const search::Outcome& o) {
  std::string out = text_of(o.best) + "\nspace " + std::to_string(o.space_size) + " bounded " + std::to_string(o.bounded) +
                    " simulations " + std::to_string(o.simulations) + " complete " + std::to_string(o.complete) +
                    " interrupted " + std::to_string(o.interrupted) + " lower bound " + std::to_string(o.lower_bound_ns);
  for (const auto& [name, n] : o.pruning.counters()) out += "\n" + name + " " + std::to_string(n);
  for (const auto& [dimension, counts] : o.by_dimension)
    for (const auto& [value, n] : counts) out += "\n" + dimension + " " + std::to_string(value) + ": " + std::to_string(n);
  for (const search::Candidate& c : o.simulated) out += "\n" + text_of(c);
  return out;
}

search::Outcome searched(const RandomProblem& p, search::Options options) {
  planner::SimulatedEvaluator evaluator(options.threads);
  return search::branch_and_bound(p.view(), evaluator, options);
}

TEST(Threads, ChangeNothing) {
  for (int i = 0; i < 40; ++i) {
    const RandomProblem p = random_problem(i);
    search::Options options;
    const std::string expected = all_of(searched(p, options));
    for (const int threads : {1, 2, 4, 8}) {
      options.threads = threads;
      ASSERT_EQ(all_of(searched(p, options)), expected) << threads << " threads, " << describe(p);
    }
  }
}

TEST(Threads, ChangeNothingUnderALimit) {
  int stopped = 0;
  for (int i = 0; i < 40; ++i) {
    const RandomProblem p = random_problem(i);
    const search::Outcome whole = searched(p, {});
    search::Options options;
    options.node_limit = 20;
    const search::Outcome first = searched(p, options);
    options.threads = 4;
    ASSERT_EQ(all_of(searched(p, options)), all_of(first)) << describe(p);
    stopped += !first.complete;
    if (!whole.best) continue;
    // The claims of an unfinished search are true: nothing is faster than its lower bound.
    ASSERT_LE(first.lower_bound_ns, whole.best->iteration_ns) << describe(p);
    if (first.best) {
      ASSERT_GE(first.best->iteration_ns, whole.best->iteration_ns);
    }
  }
  EXPECT_GT(stopped, 3);
}

TEST(Threads, AnInterruptedSearchKeepsItsBestSoFar) {
  for (int i = 0; i < 20; ++i) {
    const RandomProblem p = random_problem(i);
    const search::Outcome whole = searched(p, {});
    search::Options options;
    int polls = 0;
    options.interrupted = [&] { return ++polls > 2; };
    const search::Outcome part = searched(p, options);
    ASSERT_EQ(part.complete, !part.interrupted);
    if (part.complete) {
      ASSERT_EQ(text_of(part.best), text_of(whole.best));
    } else if (whole.best) {
      ASSERT_LE(part.lower_bound_ns, whole.best->iteration_ns) << describe(p);
    }
  }
}

// Seeds are configurations tried first. They may speed up the search, but they are part of the answer only if they
// are the best.
TEST(Seeds, ChangeNoAnswer) {
  Random random(7);
  for (int i = 0; i < 60; ++i) {
    const RandomProblem p = random_problem(i);
    const search::Space space(p.model, p.cluster, p.training, *p.engine, p.space);
    std::vector<Configuration> all;
    space.for_each([&](const Configuration& c) { all.push_back(c); });
    search::Options options;
    for (int k = 0; k < 4; ++k) options.seeds.push_back(random.of(all));
    Configuration outside = all.front();
    outside.strategy.tp = 7;
    options.seeds.push_back(outside);
    ASSERT_EQ(text_of(searched(p, options).best), text_of(searched(p, {}).best)) << describe(p);
  }
}

}  // namespace
}  // namespace espalier::property::threads_test
