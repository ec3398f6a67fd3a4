// SPDX-License-Identifier: Apache-2.0
#include "search/pruning.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace espalier::search {
namespace {

TEST(Pruning, SmallestExample) {
  PruningState state;
  EXPECT_TRUE(state.enabled(Pruning::memory));
  EXPECT_TRUE(state.disable("memory"));
  EXPECT_FALSE(state.enabled(Pruning::memory));
  EXPECT_TRUE(state.enabled(Pruning::bound));
  EXPECT_FALSE(state.disable("memories"));
}

TEST(Pruning, EveryRuleHasItsNameSwitchAndCounter) {
  std::set<std::string> names;
  for (const PruningRule& rule : pruning_rules()) {
    EXPECT_TRUE(names.insert(std::string(rule.name)).second);
    EXPECT_FALSE(rule.sentence.empty());
    PruningState state;
    state.count(rule.id, 3);
    EXPECT_EQ(state.counters().at(std::string(rule.name)), 3);
    EXPECT_TRUE(state.disable(rule.name));
    EXPECT_FALSE(state.enabled(rule.id));
    for (const PruningRule& other : pruning_rules()) EXPECT_EQ(state.enabled(other.id), other.id != rule.id);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kPrunings));
}

TEST(Pruning, CountersAddUp) {
  PruningState a, b;
  a.count(Pruning::bound, 1);
  b.count(Pruning::bound, 2);
  b.count(Pruning::memory, 5);
  a.add(b);
  EXPECT_EQ(a.removed(Pruning::bound), 3);
  EXPECT_EQ(a.removed(Pruning::memory), 5);
}

}  // namespace
}  // namespace espalier::search
