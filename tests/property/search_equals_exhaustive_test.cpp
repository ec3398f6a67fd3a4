// SPDX-License-Identifier: Apache-2.0
// Tests the certificate on random problems that vary every pair of dimensions. Branch and bound gives the plan that
// simulating every configuration gives, with the same nanosecond and the same text. This also holds with each pruning
// rule switched off.
//
// There are 500 problems, a quarter of them also with rules switched off; ESPALIER_LONG_TESTS=1 uses ten
// times as many.
#include <gtest/gtest.h>

#include <cstdio>

#include "plan/recompute_modules.h"
#include "random_problem.h"

namespace espalier::property::search_equals_exhaustive_test {
namespace {

const int kProblems = cases(500, 5000);

double removed(const search::Outcome& o) {
  double all = 0;
  for (const auto& [name, n] : o.pruning.counters()) all += n;
  return all;
}

search::Outcome exhaustive(const RandomProblem& p) {
  planner::SimulatedEvaluator evaluator(1);
  return search::exhaustive(p.view(), evaluator, {});
}

search::Outcome pruned(const RandomProblem& p, const search::Options& options = {}) {
  planner::SimulatedEvaluator evaluator(options.threads);
  return search::branch_and_bound(p.view(), evaluator, options);
}

void expect_same(const RandomProblem& p, const search::Outcome& all, const search::Outcome& clever, const std::string& how) {
  EXPECT_EQ(text_of(all.best), text_of(clever.best)) << how << "\n" << describe(p);
  EXPECT_TRUE(clever.complete);
  EXPECT_EQ(all.space_size, clever.space_size) << how << "\n" << describe(p);
  EXPECT_EQ(removed(clever) + static_cast<double>(clever.simulations), clever.space_size) << how << "\n" << describe(p);
  EXPECT_EQ(clever.lower_bound_ns, clever.best ? clever.best->iteration_ns : 0);
}

/// Records the pairs of dimensions that both vary in some problem.
class Coverage {
 public:
  void add(const RandomProblem& p) {
    const search::Space space(p.model, p.cluster, p.training, *p.engine, p.space);
    Values values;
    space.for_each([&](const Configuration& c) { note_values(c, values); });
    for (const Pair& pair : dimension_pairs()) {
      const auto several = [&](Dimension d) { return values[static_cast<std::size_t>(d)].size() > 1; };
      if (several(pair.first) && several(pair.second)) ++seen_[pair];
    }
  }
  [[nodiscard]] std::string missing() const {
    std::string out;
    for (const Pair& pair : dimension_pairs())
      if (!seen_.contains(pair)) out += " " + std::string(to_string(pair.first)) + "/" + std::string(to_string(pair.second));
    return out;
  }
  [[nodiscard]] int least() const {
    int n = seen_.empty() ? 0 : seen_.begin()->second;
    for (const auto& [pair, times] : seen_) n = std::min(n, times);
    return n;
  }

 private:
  std::map<Pair, int> seen_;
};

TEST(SearchEqualsExhaustive, OnRandomProblemsThatVaryEveryPairOfDimensions) {
  Coverage coverage;
  double configurations = 0, simulated = 0;
  int infeasible = 0, limited = 0;
  for (int i = 0; i < kProblems && !::testing::Test::HasFailure(); ++i) {
    const RandomProblem p = random_problem(i);
    const search::Outcome all = exhaustive(p);
    ASSERT_EQ(all.space_size, p.size) << describe(p);
    ASSERT_LE(p.size, 5000);
    const search::Outcome clever = pruned(p);
    expect_same(p, all, clever, "all rules");
    coverage.add(p);
    configurations += all.space_size;
    simulated += static_cast<double>(clever.simulations);
    infeasible += !all.best;
    limited += all.best && removed(all) > 0;
  }
  EXPECT_EQ(coverage.missing(), "");
  EXPECT_GT(infeasible, kProblems / 50);
  EXPECT_GT(limited, kProblems / 5);
  std::printf(
      "%d problems, %.0f configurations, %.0f simulated by the search; %d problems partly and %d wholly out of memory; every "
      "pair varied in at least %d\n",
      kProblems, configurations, simulated, limited, infeasible, coverage.least());
}

/// Returns the subsets of the modules that engine and model have, the empty one excluded.
std::vector<RecomputeModules> all_subsets(const RandomProblem& p) {
  const RecomputeModules offered = modules_of(p.model, p.engine->memory.fuses_norms).both(p.engine->runs.recompute_modules);
  std::vector<RecomputeModules> out;
  for (unsigned bits = 1; bits < 1U << static_cast<unsigned>(kRecomputeModules); ++bits) {
    RecomputeModules set;
    RecomputeModules::all().each([&](RecomputeModule m) {
      if ((bits >> static_cast<unsigned>(m) & 1U) != 0) set.add(m);
    });
    if (set.both(offered) == set) out.push_back(set);
  }
  return out;
}

double size_of(const RandomProblem& p) {
  double size = 0;
  search::Space space(p.model, p.cluster, p.training, *p.engine, p.space);
  space.layer_group([&](const Configuration& c) { size += space.leaves(c); });
  return size;
}

// The reference pins each subset of the modules in turn, also those that the space lists once for their equal effect,
// and simulates every configuration. The search over all sets finds the fastest of them.
TEST(SearchEqualsExhaustive, OverSetsOfRecomputedModules) {
  int problems = 0, chosen = 0;
  for (int i = 0; problems < cases(25, 250); ++i) {
    RandomProblem p = random_problem(i);
    p.engine = find_engine(i % 2 == 0 ? "generic" : "megatron-core");
    p.space.forbidden.erase(Dimension::recompute);
    p.space.allow(Dimension::recompute, {RecomputeKind::selective});
    if (i % 4 < 2) p.space.allow(Dimension::recompute, {RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full});
    const std::vector<RecomputeModules> subsets = all_subsets(p);
    const double most = size_of(p) * static_cast<double>(subsets.size() + 1);
    if (most == 0 || most > 3000) continue;
    ++problems;
    const search::Outcome meant = exhaustive(p);
    std::int64_t best_ns = meant.best ? meant.best->iteration_ns : INT64_MAX;
    for (const RecomputeModules set : subsets) {
      EngineModel meaning = *p.engine;
      meaning.memory.selective = set;
      RandomProblem pinned = p;
      pinned.engine = &meaning;
      const search::Outcome all = exhaustive(pinned);
      if (all.best) best_ns = std::min(best_ns, all.best->iteration_ns);
    }
    p.space.allowed[Dimension::recompute].push_back(kModuleSets);
    const search::Outcome clever = pruned(p);
    expect_same(p, exhaustive(p), clever, "sets of modules");
    EXPECT_EQ(clever.best ? clever.best->iteration_ns : INT64_MAX, best_ns) << describe(p);
    chosen += clever.best && clever.best->configuration.strategy.recompute.modules.any() ? 1 : 0;
  }
  EXPECT_GT(chosen, 0);
  std::printf("%d problems, a set other than the engine's is the answer of %d\n", problems, chosen);
}

TEST(SearchEqualsExhaustive, WithAnyRuleSwitchedOff) {
  for (int i = 0; i < kProblems / 4 && !::testing::Test::HasFailure(); ++i) {
    const RandomProblem p = random_problem(i);
    const search::Outcome all = exhaustive(p);
    search::Options none;
    for (const search::PruningRule& rule : search::pruning_rules()) {
      search::Options options;
      ASSERT_TRUE(options.pruning.disable(rule.name));
      ASSERT_TRUE(none.pruning.disable(rule.name));
      const search::Outcome without = pruned(p, options);
      expect_same(p, all, without, "without " + std::string(rule.name));
      // A configuration that does not fit is never a candidate, whichever rule removes it.
      if (rule.id != search::Pruning::memory) {
        EXPECT_EQ(without.pruning.removed(rule.id), 0) << rule.name;
      }
    }
    const search::Outcome plain = pruned(p, none);
    expect_same(p, all, plain, "without any rule");
    EXPECT_EQ(plain.simulations, all.simulations);
  }
}

}  // namespace
}  // namespace espalier::property::search_equals_exhaustive_test
