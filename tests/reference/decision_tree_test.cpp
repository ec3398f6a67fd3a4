// SPDX-License-Identifier: Apache-2.0
#include "reference/decision_tree.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

namespace espalier::reference {
namespace {

std::vector<TreeLeaf> leaves(std::int32_t devices, bool recompute, bool rule) {
  TreeRules rules;
  if (!rule) rules.disable("no-dp-sdp-mix");
  return decision_tree(devices, recompute, rules);
}

std::map<std::int32_t, int> by_depth(const std::vector<TreeLeaf>& leaves) {
  std::map<std::int32_t, int> out;
  for (const TreeLeaf& leaf : leaves) ++out[leaf.pp];
  return out;
}

// With two devices, one stage splits its two devices in one of three ways, and two stages have nothing to split.
TEST(DecisionTree, TwoDevices) {
  std::vector<std::string> labels;
  for (const TreeLeaf& leaf : leaves(2, false, true)) labels.push_back(leaf.label());
  EXPECT_EQ(labels, (std::vector<std::string>{"pp1 dp2", "pp1 sdp2", "pp1 tp2", "pp2"}));
}

// The published counts are 34 strategies on eight devices, 22 without the mix of DP and SDP. By hand for P = 2, four
// devices: 3 of one level and 3·2 of two levels, without dp-sdp and sdp-dp.
TEST(DecisionTree, CountsOfThePaper) {
  EXPECT_EQ(leaves(8, false, false).size(), 34U);
  EXPECT_EQ(leaves(8, false, true).size(), 22U);
  EXPECT_EQ(leaves(16, false, false).size(), 73U);
  EXPECT_EQ(leaves(16, false, true).size(), 37U);
  EXPECT_EQ(leaves(64, false, false).size(), 229U);
  EXPECT_EQ(leaves(64, false, true).size(), 79U);
  EXPECT_EQ(leaves(8, true, true).size(), 44U);
  EXPECT_EQ(leaves(64, true, false).size(), 458U);
  EXPECT_EQ(by_depth(leaves(8, false, false)), (std::map<std::int32_t, int>{{1, 21}, {2, 9}, {4, 3}, {8, 1}}));
  EXPECT_EQ(by_depth(leaves(8, false, true)), (std::map<std::int32_t, int>{{1, 11}, {2, 7}, {4, 3}, {8, 1}}));
}

TEST(DecisionTree, RuleCountsWhatItRemoves) {
  TreeRules rules;
  decision_tree(8, false, rules);
  EXPECT_EQ(rules.removed(TreeRule::no_dp_sdp_mix), 12);
  decision_tree(8, true, rules);
  EXPECT_EQ(rules.removed(TreeRule::no_dp_sdp_mix), 12 + 24);
  EXPECT_FALSE(rules.disable("no-such-rule"));
}

TEST(DecisionTree, LeavesAreDistinctAndFillTheDevices) {
  std::set<std::string> seen;
  for (const TreeLeaf& leaf : leaves(64, true, false)) {
    std::int32_t devices = leaf.pp;
    for (const TreeLevel& level : leaf.levels) devices *= level.degree;
    EXPECT_EQ(devices, 64) << leaf.label();
    EXPECT_TRUE(seen.insert(leaf.label()).second) << leaf.label();
  }
}

}  // namespace
}  // namespace espalier::reference
