// SPDX-License-Identifier: Apache-2.0
// Defines mutations: each breaks one thing and names the finding that must fail. A new kind of breakage is one row of
// a table (tables.h).
//
// Wherever a mutation applies, that finding rejects it, or it is proven harmless. Harmless means that the check
// accepts the mutated case, and that the mutated plan by the mutated program gives the same simulated figures. They
// must equal those of the unbroken case to the nanosecond and the byte.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "check/test_problem.h"
#include "cost/plan_testing.h"
#include "plan/engine.h"
#include "planner/plan_claims.h"
#include "sim/simulator.h"

namespace espalier::mutation {

using namespace check;        // NOLINT: every name below is one of the check's
using namespace check::test;  // NOLINT

/// Breaks a case and returns true, or returns false if there is nothing to break.
using Break = std::function<bool(Case&)>;

struct Mutation {
  const char* name;
  const char* finding;  ///< name of the finding that must fail
  Break apply;
};

inline Job job_of(const Case& c) {
  Job job;
  job.model = c.model;
  job.cluster = c.cluster;
  job.training = c.plan.training;
  job.engine = c.plan.engine;
  return job;
}

/// Returns time and peaks of the case's plan by the case's own program; empty if it cannot be simulated.
inline std::vector<std::int64_t> simulated_figures(const Case& c) {
  const EngineModel* engine = find_engine(c.plan.engine);
  if (engine == nullptr) return {};
  const cost::CostContext context(c.model, c.cluster, c.plan.training, *engine);
  Program whole = lower(c.plan, c.model, true);
  const cost::Costs costs = cost::price(context, c.plan, whole);
  sim::Simulator simulator;
  const auto simulation = simulator.run(c.program, costs, {false});
  if (!simulation) return {};
  std::vector<std::int64_t> figures = {simulation->iteration_ns};
  for (const RankOutcome& rank : simulation->ranks) figures.push_back(rank.memory.bytes);
  return figures;
}

/// Returns true if the claims are unchanged, the check passes, and the simulated figures are the same as before.
inline bool harmless(const Case& before, const Case& after, const CheckReport& report) {
  const bool same_claims = before.claims.iteration_ns == after.claims.iteration_ns &&
                           before.claims.peak_bytes_per_stage == after.claims.peak_bytes_per_stage;
  if (!report.ok() || !same_claims) return false;
  const std::vector<std::int64_t> figures = simulated_figures(after);
  return !figures.empty() && figures == simulated_figures(before);
}

/// Checks that every mutation applies to at least one case, and is rejected by name or harmless wherever it applies.
inline void expect_rejected(const std::vector<Mutation>& mutations, const std::vector<Case>& cases) {
  int rejected = 0, proven = 0;
  for (const Mutation& mutation : mutations) {
    int applied = 0;
    for (std::size_t n = 0; n < cases.size(); ++n) {
      Case broken_case = cases[n];
      if (!mutation.apply(broken_case)) continue;
      ++applied;
      const CheckReport report = broken_case.check();
      const Finding* finding = find(report, mutation.finding);
      if (finding != nullptr && !finding->ok) {
        EXPECT_FALSE(finding->text.empty());
        ++rejected;
        continue;
      }
      const bool proof = harmless(cases[n], broken_case, report);
      proven += proof ? 1 : 0;
      EXPECT_TRUE(proof) << mutation.name << " on case " << n << " passes '" << mutation.finding << "'\n" << broken(report);
    }
    EXPECT_GT(applied, 0) << mutation.name << " applies nowhere";
  }
  ::testing::Test::RecordProperty("kinds", static_cast<int>(mutations.size()));
  std::printf("%d kinds on %d cases: %d rejected by name, %d harmless\n", static_cast<int>(mutations.size()),
              static_cast<int>(cases.size()), rejected, proven);
}

/// Checks mutations of which none may pass as harmless: in any pipeline, the finding of that name fails.
inline void expect_named(const std::vector<Mutation>& mutations, const std::vector<Case>& cases) {
  int rejected = 0;
  for (const Mutation& mutation : mutations) {
    int applied = 0;
    for (std::size_t n = 0; n < cases.size(); ++n) {
      Case broken_case = cases[n];
      if (!mutation.apply(broken_case)) continue;
      ++applied;
      const CheckReport report = broken_case.check();
      const bool named = std::any_of(report.findings.begin(), report.findings.end(),
                                     [&](const Finding& f) { return !f.ok && f.name == mutation.finding && !f.text.empty(); });
      EXPECT_TRUE(named) << mutation.name << " on case " << n << " passes '" << mutation.finding << "'\n" << broken(report);
      rejected += named ? 1 : 0;
    }
    EXPECT_GT(applied, 0) << mutation.name << " applies nowhere";
  }
  ::testing::Test::RecordProperty("kinds", static_cast<int>(mutations.size()));
  std::printf("%d kinds on %d cases: %d rejected by name\n", static_cast<int>(mutations.size()), static_cast<int>(cases.size()),
              rejected);
}

}  // namespace espalier::mutation
