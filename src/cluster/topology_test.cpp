// SPDX-License-Identifier: Apache-2.0
// Groups placed by hand on small fabrics, and the closed forms against the counted definition.
#include "cluster/topology.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace espalier::cluster {
namespace {

FabricLevel level(std::int64_t span) {
  FabricLevel l;
  l.span = span;
  return l;
}

std::vector<std::int64_t> members(const GroupShape& shape) {
  return {shape.members_per_level.begin(), shape.members_per_level.begin() + shape.levels};
}

using Members = std::vector<std::int64_t>;

// Two DGX H100, 16 devices. Neighbours: {0…7} lie in one node (8 members there), {0…15} fill both (8 in each, 16 in all).
TEST(GroupShape, TwoNodesOfEight) {
  const std::vector<FabricLevel> dgx = {level(8), level(16)};
  EXPECT_EQ(members(group_shape(dgx, 1, 8, 16)), (Members{8, 8}));
  EXPECT_EQ(members(group_shape(dgx, 1, 16, 16)), (Members{8, 16}));
  EXPECT_EQ(members(group_shape(dgx, 1, 2, 16)), (Members{2, 2}));
  // Stride 8: {0,8}, {1,9} …: one member in each node. Stride 4: {0,4,8,12}: two in each.
  EXPECT_EQ(members(group_shape(dgx, 8, 2, 16)), (Members{1, 2}));
  EXPECT_EQ(members(group_shape(dgx, 4, 4, 16)), (Members{2, 4}));
  EXPECT_EQ(members(group_shape(dgx, 4, 2, 16)), (Members{2, 2}));
  EXPECT_EQ(members(group_shape(dgx, 1, 1, 16)), (Members{1, 1}));
}

// Sizes that do not divide a node. 3: {6,7,8} splits 2 + 1. 5: {5…9} splits 3 + 2, {10…14} lies inside: 2 at worst.
// 6 on two nodes: {6…11} splits 2 + 4. 6 on one node: {0…5} alone.
TEST(GroupShape, OddSizes) {
  const std::vector<FabricLevel> dgx = {level(8), level(16)};
  EXPECT_EQ(members(group_shape(dgx, 1, 3, 16)), (Members{1, 3}));
  EXPECT_EQ(members(group_shape(dgx, 1, 5, 16)), (Members{2, 5}));
  EXPECT_EQ(members(group_shape(dgx, 1, 6, 16)), (Members{2, 6}));
  EXPECT_EQ(members(group_shape({level(8)}, 1, 6, 8)), (Members{6}));
  // Five nodes: size 5 meets every phase; {15…19} splits 1 + 4.
  EXPECT_EQ(members(group_shape({level(8), level(40)}, 1, 5, 40)), (Members{1, 5}));
}

// Two racks of 72, trays of 4. 64 neighbours: {64…127} splits 8 + 56, 4 in every tray. Stride 4, 36 members: 1 in a tray, and
// blocks of 144 begin at a rack's border: 18 in each rack.
TEST(GroupShape, Nvl72) {
  const std::vector<FabricLevel> racks = {level(4), level(72), level(144)};
  EXPECT_EQ(members(group_shape(racks, 1, 72, 144)), (Members{4, 72, 72}));
  EXPECT_EQ(members(group_shape(racks, 1, 64, 144)), (Members{4, 8, 64}));
  EXPECT_EQ(members(group_shape(racks, 4, 36, 144)), (Members{1, 18, 36}));
  EXPECT_EQ(members(group_shape(racks, 72, 2, 144)), (Members{1, 1, 2}));
}

// Pods of 2 nodes of 8, 4 pods in all.
TEST(GroupShape, Pods) {
  const std::vector<FabricLevel> pods = {level(8), level(16), level(64)};
  EXPECT_EQ(members(group_shape(pods, 8, 8, 64)), (Members{1, 2, 8}));
  EXPECT_EQ(members(group_shape(pods, 1, 32, 64)), (Members{8, 16, 32}));
  EXPECT_EQ(members(group_shape(pods, 2, 4, 64)), (Members{4, 4, 4}));
}

TEST(LevelOfPair, LowestCommonDomain) {
  const std::vector<FabricLevel> pods = {level(8), level(16), level(64)};
  EXPECT_EQ(level_of_pair(pods, 3, 3), -1);
  EXPECT_EQ(level_of_pair(pods, 0, 7), 0);
  EXPECT_EQ(level_of_pair(pods, 7, 8), 1);
  EXPECT_EQ(level_of_pair(pods, 15, 16), 2);
}

// Hybrid cube mesh: 2 devices share 33.3 GB/s, 4 share 3 · 33.3 = 99.9, 8 are capped at the six links, 150.
TEST(GroupBandwidth, MeshGivesSmallGroupsFewLinks) {
  FabricLevel mesh = level(8);
  mesh.bandwidth = mesh.bandwidth_alone = GBps(150);
  mesh.per_peer = GBps(33.3);
  EXPECT_DOUBLE_EQ(group_bandwidth(mesh, 2).count(), 33.3e9);
  EXPECT_DOUBLE_EQ(group_bandwidth(mesh, 4).count(), 99.9e9);
  EXPECT_DOUBLE_EQ(group_bandwidth(mesh, 8).count(), 150e9);
  EXPECT_DOUBLE_EQ(pair_bandwidth(mesh, true).count(), 33.3e9);
  mesh.per_peer = {};
  EXPECT_DOUBLE_EQ(group_bandwidth(mesh, 2).count(), 150e9);
}

/// The definition, counted.
std::int64_t counted(std::int64_t span, std::int64_t stride, std::int64_t size, std::int64_t devices) {
  std::int64_t fewest = size;
  for (std::int64_t block = 0; block + stride * size <= devices; block += stride * size) {
    for (std::int64_t j = 0; j < stride; ++j) {
      std::map<std::int64_t, std::int64_t> in_domain;
      for (std::int64_t i = 0; i < size; ++i) ++in_domain[(block + j + i * stride) / span];
      for (const auto& [domain, count] : in_domain) fewest = std::min(fewest, count);
    }
  }
  return fewest;
}

RC_GTEST_PROP(GroupShapeProperty, EqualsTheCountedMinimum, ()) {
  const auto node = *rc::gen::inRange<std::int64_t>(1, 13);
  const auto nodes_per_pod = *rc::gen::inRange<std::int64_t>(1, 7);
  const auto pods = *rc::gen::inRange<std::int64_t>(1, 9);
  const std::int64_t devices = node * nodes_per_pod * pods;
  const auto stride = *rc::gen::inRange<std::int64_t>(1, devices + 1);
  const auto size = *rc::gen::inRange<std::int64_t>(1, devices / stride + 1);
  const std::vector<FabricLevel> levels = {level(node), level(node * nodes_per_pod), level(devices)};
  const GroupShape shape = group_shape(levels, stride, size, devices);
  RC_ASSERT(shape.members_per_level[0] == counted(node, stride, size, devices));
  RC_ASSERT(shape.members_per_level[1] == counted(node * nodes_per_pod, stride, size, devices));
  RC_ASSERT(shape.members_per_level[2] == size);
}

}  // namespace
}  // namespace espalier::cluster
