// SPDX-License-Identifier: Apache-2.0
// Members of a group on each level, counted by hand on a fabric whose domains do not hold a power of two of devices.
#include "cost/placement.h"

#include <gtest/gtest.h>

namespace espalier::cost {
namespace {

std::vector<std::int64_t> members(const Group& group) { return {group.members.begin(), group.members.begin() + group.levels}; }
using Members = std::vector<std::int64_t>;

// 256 GB200 in 64 trays of 4. A rack has 18 trays, and the job has 16 in each of 4 racks: trays hold 4 devices, racks
// 64, the network joins 256. A group of 32 or 64 neighbours, or of 16 at a stride of 4, lies inside the 64 of one
// rack. On racks filled in order (72 devices) the second 64 would be cut into 8 and 56.
TEST(Placement, GroupsOfOneSegmentStayInsideTheirRack) {
  const auto cluster = load_cluster("{nodes: 64, device: gb200-nvl72}", "gb200");
  ASSERT_TRUE(cluster) << cluster.error().message();
  const std::vector<FabricLevel> levels = cluster->levels();
  Strategy fsdp;
  fsdp.dp = 64;
  EXPECT_EQ(members(data_group(levels, fsdp, 4, 64)), (Members{4, 64, 64}));
  EXPECT_EQ(members(data_group(levels, fsdp, 4, 32)), (Members{4, 32, 32}));
  Strategy experts = fsdp;
  experts.etp = 1;
  experts.ep = 32;
  EXPECT_EQ(members(ep_group(levels, experts, 4)), (Members{4, 32, 32}));
  experts.ep = 64;
  EXPECT_EQ(members(ep_group(levels, experts, 4)), (Members{4, 64, 64}));
  // TP 8 · CP 8 = 64 devices: a tray holds 4 of a tensor group, and one rank of a context group, whose stride is 8.
  Strategy sequence;
  sequence.tp = 8;
  sequence.cp = 8;
  sequence.dp = 4;
  EXPECT_EQ(members(tp_group(levels, sequence)), (Members{4, 8, 8}));
  EXPECT_EQ(members(cp_group(levels, sequence)), (Members{1, 8, 8}));
  // TP 4 and 16 replicas at a stride of 4 are 64 devices again.
  Strategy mixed;
  mixed.tp = 4;
  mixed.dp = 16;
  EXPECT_EQ(members(data_group(levels, mixed, 4, 16)), (Members{1, 16, 16}));
  // All 256 have to leave the rack: there are 64 in each of 4.
  Strategy all;
  all.dp = 256;
  EXPECT_EQ(members(data_group(levels, all, 1, 256)), (Members{4, 64, 256}));
}

}  // namespace
}  // namespace espalier::cost
