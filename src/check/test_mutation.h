// SPDX-License-Identifier: Apache-2.0
// For the tests that break cases: a mutation breaks one thing, and names the finding that must fail.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "check/test_problem.h"

namespace espalier::check::test {

/// Breaks a case and returns true, or finds nothing to break and returns false.
using Break = std::function<bool(Case&)>;

struct Mutation {
  const char* name;
  const char* finding;  ///< that must fail
  Break apply;
};

/// Every mutation applies to at least one base case, and wherever it applies the named finding fails.
inline void expect_rejected(const std::vector<Mutation>& mutations, const std::vector<Case>& cases) {
  for (const Mutation& mutation : mutations) {
    int applied = 0;
    for (std::size_t n = 0; n < cases.size(); ++n) {
      Case broken_case = cases[n];
      if (!mutation.apply(broken_case)) continue;
      ++applied;
      const Report report = broken_case.check();
      const Finding* finding = find(report, mutation.finding);
      ASSERT_NE(finding, nullptr) << mutation.name << " on case " << n << ": no finding '" << mutation.finding << "'\n"
                                  << broken(report);
      EXPECT_FALSE(finding->ok) << mutation.name << " on case " << n << " passes '" << mutation.finding << "'\n"
                                << broken(report);
      EXPECT_FALSE(finding->text.empty());
    }
    EXPECT_GT(applied, 0) << mutation.name << " applies nowhere";
  }
}

}  // namespace espalier::check::test
