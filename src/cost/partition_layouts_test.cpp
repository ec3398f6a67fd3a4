// SPDX-License-Identifier: Apache-2.0
#include "cost/partition_layouts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cost/test_problem.h"
#include "partition/operator_splits.h"

namespace espalier::cost::partition_layouts_test {
namespace {

using partition::Phase;

/// Returns 2^bits devices in nodes of four: 1 GB/s between any two, 0.25 GB/s per device out of a node, 1 GB/s if it
/// is alone; no latency.
PartitionFabric two_levels(int bits) {
  std::vector<FabricLevel> levels = cost::test::round_cluster(4).levels();
  FabricLevel network = levels.front();
  network.span = 1 << bits;
  network.bandwidth = BytesPerSecond(0.25e9);
  levels.push_back(network);
  return {levels, bits};
}

// A tensor of three axes on 8 devices (d1 d2 d3), two nodes of four. Held: rows by d1, columns by d2; needed: rows by
// d1, columns by d3. A device has half of the rows either way. Its half of the columns is right if d2 = d3, and else
// with a neighbour in the node: a quarter of the tensor, for half of the devices. Nothing leaves the node. The second
// case needs rows by d3 instead of d1. If d1 ≠ d3, a device that needs rows d3 and has rows d1 fetches the quarter
// from the other node, which has the other half of the rows.
TEST(PartitionLayouts, AreTheSmallestExamplesByHand) {
  const PartitionFabric fabric = two_levels(3);
  LayoutTable table(fabric);
  const LayoutId held = table.plain({0, 0b100, 0b010, 0}), columns = table.plain({0, 0b100, 0b001, 0});
  const Exchange inside = table.moved(held, columns);
  EXPECT_DOUBLE_EQ(inside.largest[0], 0.25);
  EXPECT_DOUBLE_EQ(inside.mean[0], 0.125);
  EXPECT_DOUBLE_EQ(inside.largest[1], 0);
  EXPECT_DOUBLE_EQ(table.seconds(held, columns, 4e9), 1.0);  // 1 GB at 1 GB/s
  const LayoutId rows = table.plain({0, 0b001, 0b010, 0});
  const Exchange across = table.moved(held, rows);
  EXPECT_DOUBLE_EQ(across.largest[0], 0);
  EXPECT_DOUBLE_EQ(across.largest[1], 0.25);
  EXPECT_DOUBLE_EQ(across.mean[1], 0.125);
  EXPECT_DOUBLE_EQ(table.seconds(held, rows, 4e9), 2.0);  // 0.5 GB on average at 0.25 GB/s a device
  EXPECT_DOUBLE_EQ(table.seconds(held, held, 4e9), 0.0);
  EXPECT_EQ(table.plain({0, 0b100, 0b010, 0}), held);
}

/// Returns what the algebra counts device by device, by level instead of reach.
Exchange counted(const PartitionFabric& fabric, const partition::Layout& held, const partition::Layout& needed) {
  const partition::Redistribution r = partition::redistribution(held, needed);
  const double unit = std::ldexp(1.0, -r.unit_bits), devices = held.devices();
  Exchange exchange;
  for (int reach = 1; reach <= fabric.bits(); ++reach) {
    const auto level = static_cast<std::size_t>(fabric.level_of(reach)), at = static_cast<std::size_t>(reach);
    exchange.mean[level] += static_cast<double>(r.total[at]) * unit / devices;
    exchange.largest[level] += static_cast<double>(r.largest[at]) * unit;  // no less than the largest of the sums
  }
  return exchange;
}

TEST(PartitionLayouts, MoveWhatTheAlgebraCounts) {
  for (int bits = 1; bits <= 4; ++bits) {
    const PartitionFabric fabric = two_levels(bits);
    LayoutTable table(fabric);
    const partition::OperatorShape linear = partition::linear_shape("linear", 64, 64, 64, 64);
    std::vector<partition::Layout> outputs, inputs, gradients;
    for (const auto& sequence : partition::partition_space(linear, bits)) {
      outputs.push_back(partition::forward_held(linear, sequence));
      inputs.push_back(partition::forward_needed(linear, sequence, 0));
      gradients.push_back(partition::backward_held(linear, sequence, 0));
    }
    int skewed = 0;
    const std::size_t stride = bits == 4 ? 7 : 1;
    const auto compare = [&](const partition::Layout& held, const partition::Layout& needed) {
      const LayoutId a = table.intern(held), b = table.intern(needed);
      skewed += !table.is_plain(a) || !table.is_plain(b);
      const Exchange moved = table.moved(a, b), expected = counted(fabric, held, needed);
      for (std::size_t k = 0; k < 2; ++k) {
        ASSERT_NEAR(moved.mean[k], expected.mean[k], 1e-12);
        ASSERT_LE(moved.largest[k], expected.largest[k] + 1e-12);
        ASSERT_GE(moved.largest[k] + 1e-12, moved.mean[k]);
        ASSERT_EQ(moved.largest[k] > 0, expected.largest[k] > 0);
      }
      ASSERT_NEAR(table.seconds(a, b, 1e9), fabric.seconds([&] {
        Exchange bytes;
        bytes.add(moved, 1e9);
        return bytes;
      }()),
                  1e-12);
    };
    for (std::size_t i = 0; i < outputs.size(); i += stride)
      for (std::size_t j = 0; j < outputs.size(); j += stride) {
        compare(outputs[i], inputs[j]);
        compare(gradients[j], outputs[i]);
      }
    if (bits > 1) {
      EXPECT_GT(skewed, 0);
    }
  }
}

// There is one reach inside and the whole machine outside; a device that is alone may use the whole link.
TEST(PartitionFabric, NamesLevelsAndGroups) {
  const PartitionFabric fabric = two_levels(4);
  EXPECT_EQ(fabric.level_of(1), 0);
  EXPECT_EQ(fabric.level_of(2), 0);
  EXPECT_EQ(fabric.level_of(3), 1);
  const Group group = fabric.group(0b1001);
  EXPECT_EQ(group.size, 4);
  EXPECT_EQ(group.members[0], 2);
  EXPECT_EQ(group.members[1], 4);
  std::vector<FabricLevel> six = cost::test::round_cluster(6).levels();
  EXPECT_FALSE(PartitionFabric::supports(six, 3));
  EXPECT_TRUE(PartitionFabric::supports(six, 2));
}

}  // namespace
}  // namespace espalier::cost::partition_layouts_test
