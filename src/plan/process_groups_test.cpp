// SPDX-License-Identifier: Apache-2.0
// Checks groups by hand, and against coordinates of ranks written out one by one.
#include "plan/process_groups.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "plan/expert_shard.h"

namespace espalier::plan_test::process_groups_test {
namespace {

using Groups = std::vector<std::vector<std::int64_t>>;

Strategy strategy(std::int32_t tp, std::int32_t cp, std::int32_t dp, RankOrder order) {
  Strategy s;
  s.tp = tp;
  s.cp = cp;
  s.dp = dp;
  s.order = order;
  return s;
}

std::vector<std::int64_t> numbered(std::int64_t count, std::int64_t first = 0) {
  std::vector<std::int64_t> devices(static_cast<std::size_t>(count));
  std::iota(devices.begin(), devices.end(), first);
  return devices;
}

// There are 8 devices from 8 on, with tp 2 and dp 4. Pairs of neighbours split a layer; even devices hold one half of
// it, odd ones the other. In ZeRO groups of two, 8 and 10 share the states of one copy, 12 and 14 those of the other.
// 8 and 12 sum their gradients.
TEST(ProcessGroups, OfEightDevices) {
  Strategy s = strategy(2, 1, 4, RankOrder::tp_cp_dp_pp);
  const std::vector<std::int64_t> devices = numbered(8, 8);
  EXPECT_EQ(process_groups(GroupKind::tensor, s, devices), (Groups{{8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(process_groups(GroupKind::data_shard, s, devices), (Groups{{8, 10, 12, 14}, {9, 11, 13, 15}}));
  s.zero = ZeroStage::optimizer;
  s.shard = 2;
  EXPECT_EQ(process_groups(GroupKind::data_shard, s, devices), (Groups{{8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(process_groups(GroupKind::data_replica, s, devices), (Groups{{8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  s.ep = 4;
  s.etp = 1;
  EXPECT_EQ(process_groups(GroupKind::expert, s, devices), (Groups{{8, 9, 10, 11}, {12, 13, 14, 15}}));
}

// Experts of ep 2, etp 2 on tp 2, dp 4 are held by two ranks each. One shard group of all four data ranks divides the
// states over both. With shard groups of two, each of the two ranks keeps all states (Megatron-LM's optimizer
// instances). Without expert parallelism the tensor ranks are also replicas: 8, of which shard groups of 2 have 4.
TEST(ProcessGroups, ExpertsAreShardedInsideTheShardGroupsOfDenseWeights) {
  Strategy s = strategy(2, 1, 4, RankOrder::tp_cp_dp_pp);
  s.ep = s.etp = 2;
  EXPECT_EQ(expert_shard_of(s), 1);
  s.zero = ZeroStage::optimizer;
  s.shard = 4;
  EXPECT_EQ(expert_shard_of(s), 2);
  EXPECT_EQ(process_groups(GroupKind::expert_shard, s, numbered(8)), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  s.shard = 2;
  EXPECT_EQ(expert_shard_of(s), 1);
  EXPECT_EQ(process_groups(GroupKind::expert_replica, s, numbered(8)), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  s.ep = s.etp = 1;
  EXPECT_EQ(expert_shard_of(s), 4);
  EXPECT_EQ(process_groups(GroupKind::expert_shard, s, numbered(8)), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  s.ep = 8;  // the one rank that holds an expert counts for both shard groups
  EXPECT_EQ(expert_shard_of(s), 1);
}

/// Returns sets of devices whose coordinates are equal except those of the group.
std::set<std::set<std::int64_t>> by_coordinates(const Strategy& s, bool context) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::set<std::int64_t>> groups;
  for (std::int64_t t = 0; t < s.tp; ++t)
    for (std::int64_t c = 0; c < s.cp; ++c)
      for (std::int64_t d = 0; d < s.dp; ++d) {
        const bool inside = s.order == RankOrder::tp_dp_cp_pp;
        const std::int64_t position = inside ? t + s.tp * (d + s.dp * c) : t + s.tp * (c + s.cp * d);
        groups[context ? std::pair{t, d} : std::pair{t, std::int64_t{0}}].insert(position);
      }
  std::set<std::set<std::int64_t>> out;
  for (const auto& [key, members] : groups) out.insert(members);
  return out;
}

TEST(ProcessGroups, AreTheRanksWithEqualCoordinates) {
  for (const RankOrder order : {RankOrder::tp_cp_dp_pp, RankOrder::tp_cp_pp_dp, RankOrder::tp_dp_cp_pp})
    for (const std::int32_t tp : {1, 2, 4})
      for (const std::int32_t cp : {1, 2, 3})
        for (const std::int32_t dp : {1, 2, 6})
          for (const bool context : {true, false}) {
            const Strategy s = strategy(tp, cp, dp, order);
            std::set<std::set<std::int64_t>> found;
            for (const auto& g : process_groups(context ? GroupKind::context : GroupKind::data_shard, s, numbered(tp * cp * dp)))
              found.insert({g.begin(), g.end()});
            EXPECT_EQ(found, by_coordinates(s, context)) << tp << " " << cp << " " << dp;
          }
}

}  // namespace
}  // namespace espalier::plan_test::process_groups_test
