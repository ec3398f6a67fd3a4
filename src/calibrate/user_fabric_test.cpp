// SPDX-License-Identifier: Apache-2.0
#include "calibrate/user_fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace espalier::calibrate {
namespace {

using runlog::CollectiveTest;
using runlog::NcclTable;
using testing::Contains;
using testing::HasSubstr;

/// Returns eight devices per node behind one NIC of 100 Gb/s.
Cluster one_nic() {
  const auto cluster = load_cluster(
      "{nodes: 2, devices_per_node: 8, device: h100-sxm-80gb, inter_node: {bandwidth: 100Gb/s, nics_per_node: 1, latency: 5us}}",
      "c");
  EXPECT_TRUE(cluster.ok()) << cluster.error().message();
  return *cluster;
}

NcclTable table(CollectiveTest test, std::int64_t ranks, std::int64_t nodes, std::int64_t active) {
  return {"t.txt:1", test, ranks, nodes, 1, active, "", true, {}};
}

NcclTable measured_on(const Cluster& cluster, NcclTable t) {
  for (std::int64_t bytes = 1024; bytes <= (std::int64_t{1} << 28); bytes *= 4)
    t.rows.push_back({1, bytes, 1e6 * modelled_s(cluster, t, static_cast<double>(bytes))});
  return t;
}

// One rank per node has the NIC alone, while eight share it: a large message takes eight times as long.
TEST(ModelledSeconds, RanksOfANodeShareItsNic) {
  const Cluster cluster = one_nic();
  const double alone = modelled_s(cluster, table(CollectiveTest::all_gather, 2, 2, 1), 1e9);
  const double shared = modelled_s(cluster, table(CollectiveTest::all_gather, 2, 2, 8), 1e9);
  EXPECT_NEAR(shared / alone, 8, 0.4);
}

// In rings, an all-reduce is a reduce-scatter and an all-gather of the same bytes, which take equally long.
TEST(ModelledSeconds, AnAllReduceIsItsTwoHalves) {
  const Cluster cluster = one_nic();
  const double whole = modelled_s(cluster, table(CollectiveTest::all_reduce, 8, 1, 8), 1e9);
  const double gather = modelled_s(cluster, table(CollectiveTest::all_gather, 8, 1, 8), 1e9);
  const double scatter = modelled_s(cluster, table(CollectiveTest::reduce_scatter, 8, 1, 8), 1e9);
  EXPECT_DOUBLE_EQ(gather, scatter);
  EXPECT_NEAR(whole / (gather + scatter), 1, 0.05);
}

TEST(ModelledSeconds, MoreBytesTakeLongerForEveryTest) {
  const Cluster cluster = one_nic();
  for (const CollectiveTest test : {CollectiveTest::all_reduce, CollectiveTest::all_gather, CollectiveTest::reduce_scatter,
                                    CollectiveTest::all_to_all, CollectiveTest::send_receive}) {
    const NcclTable t = table(test, 16, 2, 8);
    EXPECT_GT(modelled_s(cluster, t, 1e6), 0) << to_string(test);
    EXPECT_GT(modelled_s(cluster, t, 1e8), modelled_s(cluster, t, 1e6)) << to_string(test);
  }
}

// Two sites of two hosts have 1 GB/s inside, and 0.1 GB/s for each host between them. Every member of a pair receives
// 0.5 GB of 1 GB. Neighbours take 0.5 s; hosts 0 and 2, one on each site, take 5 s. All four receive 0.75 GB each, by
// a ring that crosses the line once each way. One transfer has both shares of the line: 3.75 s.
TEST(ModelledSeconds, GroupsLieWhereTheirRanksAreListed) {
  const auto cluster = load_cluster(
      "{nodes: 4, devices_per_node: 1, device: t4, fabric: [{name: site, kind: ethernet, span: 2, bandwidth: 1GB/s, efficiency: "
      "1}, "
      "{name: between, kind: ethernet, span: cluster, bandwidth: 0.1GB/s, efficiency: 1}]}",
      "c");
  ASSERT_TRUE(cluster.ok()) << cluster.error().message();
  NcclTable pair = table(CollectiveTest::all_gather, 2, 2, 1);
  pair.members = {{0, 0}, {1, 0}};
  EXPECT_NEAR(modelled_s(*cluster, pair, 1e9), 0.5, 0.01);
  pair.members = {{0, 0}, {2, 0}};
  EXPECT_NEAR(modelled_s(*cluster, pair, 1e9), 5, 0.05);
  NcclTable all = table(CollectiveTest::all_gather, 4, 4, 1);
  const double unlisted = modelled_s(*cluster, all, 1e9);
  all.members = {{0, 0}, {1, 0}, {2, 0}, {3, 0}};
  EXPECT_EQ(modelled_s(*cluster, all, 1e9), unlisted);
  EXPECT_NEAR(unlisted, 3.75, 0.05);
}

// Hosts 0, 1, 4, 5 of eight are two on each site: 0.75 GB over a line that carries 0.1 GB/s for each of the two.
// Hosts 0, 1, 3, 5 are at unequal distances and are taken for neighbours.
TEST(ModelledSeconds, GroupsOfTwoDistances) {
  const auto cluster = load_cluster(
      "{nodes: 8, devices_per_node: 1, device: t4, fabric: [{name: site, kind: ethernet, span: 4, bandwidth: 1GB/s, efficiency: "
      "1}, "
      "{name: between, kind: ethernet, span: cluster, bandwidth: 0.1GB/s, efficiency: 1}]}",
      "c");
  ASSERT_TRUE(cluster.ok()) << cluster.error().message();
  NcclTable t = table(CollectiveTest::all_gather, 4, 4, 1);
  const double neighbours = modelled_s(*cluster, t, 1e9);
  t.members = {{0, 0}, {1, 0}, {4, 0}, {5, 0}};
  EXPECT_NEAR(modelled_s(*cluster, t, 1e9), 3.75, 0.01);
  t.members = {{0, 0}, {1, 0}, {3, 0}, {5, 0}};
  EXPECT_EQ(modelled_s(*cluster, t, 1e9), neighbours);
}

// Where a table measures the shipped values, nothing moves and every level keeps its values.
TEST(FitUserFabric, AnUnchangedMachineIsFoundUnchanged) {
  const Cluster cluster = one_nic();
  const auto fit = fit_user_fabric(cluster, {measured_on(cluster, table(CollectiveTest::all_gather, 16, 2, 8))});
  ASSERT_TRUE(fit.ok()) << fit.error().message();
  EXPECT_NEAR(fit->before, 0, 1e-9);
  EXPECT_NEAR(fit->held_out, 0, 1e-3);
  for (const LevelFit& level : fit->levels)
    for (const LevelFit::Field& f : level.fields)
      EXPECT_NEAR(f.value, f.prior, 0.01 * f.prior) << level.name << " " << f.field->name;
}

// A table inside one node has no information about the network.
TEST(FitUserFabric, LevelsThatNoTableUsesAreNotWritten) {
  const Cluster cluster = one_nic();
  const auto fit = fit_user_fabric(cluster, {measured_on(cluster, table(CollectiveTest::all_reduce, 8, 1, 8))});
  ASSERT_TRUE(fit.ok());
  for (const LevelFit& level : fit->levels) EXPECT_TRUE(level.inside_node) << level.name;
  for (const job::CalibratedLevel& level : fit->calibrated()) {
    EXPECT_TRUE(level.inside_node);
    for (const auto& [field, value] : level.values) EXPECT_GT(value, 0) << field->name;
  }
}

TEST(FitUserFabric, CountsTheRowsOfOneMebibyteAndMore) {
  const Cluster cluster = one_nic();
  NcclTable t = table(CollectiveTest::all_reduce, 8, 1, 8);
  for (const std::int64_t bytes : {1024, 1 << 19, 1 << 20, 1 << 24})
    t.rows.push_back({1, bytes, 1e6 * modelled_s(cluster, t, static_cast<double>(bytes))});
  const auto fit = fit_user_fabric(cluster, {t});
  ASSERT_TRUE(fit.ok());
  ASSERT_EQ(fit->tables.size(), 1u);
  EXPECT_EQ(fit->tables.front().rows, 2);
  EXPECT_EQ(fit->tables.front().ranks, 8);
}

TEST(FitUserFabric, WarnsOfCutOutputAndOfTablesThatSayNothing) {
  const Cluster cluster = one_nic();
  NcclTable cut = measured_on(cluster, table(CollectiveTest::all_reduce, 8, 1, 8));
  cut.complete = false;
  EXPECT_THAT(fit_user_fabric(cluster, {cut})->warnings, Contains(HasSubstr("the output is truncated")));
  NcclTable tiny = table(CollectiveTest::all_reduce, 1, 1, 1);  // one rank moves nothing
  tiny.rows.push_back({1, 1024, 10});
  const auto nothing = fit_user_fabric(cluster, {tiny});
  ASSERT_TRUE(nothing.ok());
  EXPECT_TRUE(nothing->levels.empty());
  EXPECT_THAT(nothing->warnings, Contains("the tables do not determine any fabric level"));
}

TEST(FitUserFabric, TablesBeyondTheClusterAreRefused) {
  const auto fit = fit_user_fabric(one_nic(), {table(CollectiveTest::all_reduce, 32, 4, 8)});
  ASSERT_FALSE(fit.ok());
  EXPECT_EQ(fit.error().found, "4 nodes with 8 ranks each");
  EXPECT_EQ(fit.error().expected, "at most 2 nodes of 8 devices");
}

/// Returns four hosts that are 2 ms apart, as Espalier's collectives see them.
Cluster far_hosts() {
  const auto cluster = load_cluster(
      "{nodes: 4, devices_per_node: 1, device: t4, fabric: [{name: network, kind: ethernet, span: cluster, bandwidth: 400Mb/s, "
      "latency: 2ms, "
      "start: 2ms, efficiency: 0.9, ramp: 0.05, direct_bytes: 500000}]}",
      "c");
  EXPECT_TRUE(cluster.ok()) << cluster.error().message();
  return *cluster;
}

// The shipped level contains no delays or direct messages; both come from tables that were measured on such hosts.
TEST(FitUserFabric, OwnCollectivesOverFarHostsAreFound) {
  std::vector<NcclTable> tables;
  for (const CollectiveTest test : {CollectiveTest::all_reduce, CollectiveTest::all_gather, CollectiveTest::send_receive})
    for (const std::int64_t ranks : {2, 4}) {
      tables.push_back(measured_on(far_hosts(), table(test, ranks, ranks, 1)));
      tables.back().direct_bytes = 500000;
    }
  Cluster near = far_hosts();
  near.inter.front().latency = near.inter.front().start = microseconds(200);
  near.inter.front().direct_bytes = 0;
  const auto fit = fit_user_fabric(near, tables);
  ASSERT_TRUE(fit.ok()) << fit.error().message();
  EXPECT_LT(fit->held_out, 0.02);
  const std::vector<job::CalibratedLevel> levels = fit->calibrated();
  ASSERT_EQ(levels.size(), 1u);
  EXPECT_EQ(levels.front().direct_bytes, 500000);
  for (const auto& [field, value] : levels.front().values)
    if (field->name == "latency_us" || field->name == "start_us") {
      EXPECT_NEAR(value, 2000, 200) << field->name;
    }
  tables.back().direct_bytes = 0;
  const auto mixed = fit_user_fabric(near, tables);
  ASSERT_FALSE(mixed.ok());
  EXPECT_EQ(mixed.error().found, "collectives that run differently from those of the first table");
}

// Four hosts are on a switch that loses nothing to congestion, described as if it did (5 % per doubling). The
// logarithm of a value close to zero hardly matters, and yet the tables determine it. The prior leaves at most a
// quarter of the error.
TEST(FitUserFabric, ALossThatIsNotThereIsTakenAway) {
  const auto hosts = [](const std::string& congestion) {
    return *load_cluster(
        "{nodes: 4, devices_per_node: 1, device: t4, fabric: [{name: network, kind: ethernet, span: cluster, bandwidth: 100Mb/s, "
        "latency: 50us, start: 50us, efficiency: 0.9, ramp: 0.3, small_group: 0.3, congestion: " +
            congestion + "}]}",
        "c");
  };
  std::vector<NcclTable> tables;
  for (const CollectiveTest test : {CollectiveTest::all_reduce, CollectiveTest::all_gather, CollectiveTest::reduce_scatter})
    for (const std::int64_t ranks : {2, 4}) tables.push_back(measured_on(hosts("0.005"), table(test, ranks, ranks, 1)));
  const auto fit = fit_user_fabric(hosts("0.05"), tables);
  ASSERT_TRUE(fit.ok()) << fit.error().message();
  EXPECT_GT(fit->before, 0.04);
  EXPECT_LT(fit->held_out, fit->before / 4);
}

}  // namespace
}  // namespace espalier::calibrate
