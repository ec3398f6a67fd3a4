// SPDX-License-Identifier: Apache-2.0
// Tests excerpts in the program's form with invented figures.
#include "runlog/nccl_tests.h"

#include <gtest/gtest.h>

namespace espalier::runlog {
namespace {

std::string ranks(int nodes, int per_node, bool split = false) {
  std::string out = "# Using devices\n";
  for (int i = 0; i < nodes * per_node; ++i) {
    out += "#  Rank " + std::to_string(i) + " Group " + std::to_string(split ? i % per_node : 0) + " Pid 77 on   node" +
           std::to_string(i / per_node) + " device " + std::to_string(i % per_node) + " [0000:18:00] NVIDIA H100 80GB HBM3\n";
  }
  return out;
}

constexpr const char* kHeader =
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)       \n";

TEST(NcclTests, ReadsATable) {
  const std::string text =
      "# Collective test starting: all_reduce_perf\n" + ranks(1, 8) + kHeader +
      "node0:77:77 [0] NCCL INFO Bootstrap: using eth0\n"
      "     1048576        262144     float     sum      -1    45.10   23.25   40.69       0    44.90   23.35   40.87       0\n"
      "  1073741824     268435456     float     sum      -1    13867   77.43  135.50       0    13877   77.38  135.41       0\n"
      "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 135.455\n#\n"
      "# Collective test concluded: all_reduce_perf\n";
  const auto tables = read_nccl_tests(text, "x.txt");
  ASSERT_TRUE(tables.ok()) << tables.error().message();
  ASSERT_EQ(tables->size(), 1u);
  const NcclTable& t = tables->front();
  EXPECT_EQ(t.test, CollectiveTest::all_reduce);
  EXPECT_EQ(t.ranks, 8);
  EXPECT_EQ(t.nodes, 1);
  EXPECT_TRUE(t.complete);
  EXPECT_EQ(t.device, "NVIDIA H100 80GB HBM3");
  ASSERT_EQ(t.rows.size(), 2u);
  EXPECT_EQ(t.rows[1].bytes, 1073741824);
  EXPECT_DOUBLE_EQ(t.rows[0].microseconds, 45.10);
}

TEST(NcclTests, OldTableWithoutGroupRootAndNameIsKnownByItsFactor) {
  const std::string text =
      "# Using devices\n#   Rank  0 Pid  1 on   nodeA device  0 [0x07] Tesla V100\n#   Rank  1 Pid  1 on   nodeA device  1 "
      "[0x08] Tesla V100\n"
      "#   Rank  2 Pid  1 on   nodeB device  0 [0x07] Tesla V100\n#   Rank  3 Pid  1 on   nodeB device  1 [0x08] Tesla V100\n"
      "     8388608       2097152   float     sum   1000.0    8.39   12.58  5e-07   1001.0    8.38   12.57  5e-07\n";
  const auto tables = read_nccl_tests(text, "old.txt");  // busbw/algbw = 1.5 = 2·3/4
  ASSERT_TRUE(tables.ok()) << tables.error().message();
  EXPECT_EQ(tables->front().test, CollectiveTest::all_reduce);
  EXPECT_EQ(tables->front().ranks, 4);
  EXPECT_EQ(tables->front().nodes, 2);
  EXPECT_FALSE(tables->front().complete);
  EXPECT_DOUBLE_EQ(tables->front().rows.front().microseconds, 1000);
}

TEST(NcclTests, SplitGroupsAndLauncherPrefixes) {
  std::string text = ranks(2, 4, true) +
                     "[1,0]<stdout>:     8388608     262144     float    none      -1    500.0   16.8    8.39    N/A    N/A    "
                     "N/A    N/A    N/A\n";
  const auto tables = read_nccl_tests(text, "run/all_gather_perf.txt");
  ASSERT_TRUE(tables.ok()) << tables.error().message();
  EXPECT_EQ(tables->front().test, CollectiveTest::all_gather);
  EXPECT_EQ(tables->front().ranks, 2);
  EXPECT_EQ(tables->front().nodes, 2);
  EXPECT_EQ(tables->front().groups, 4);
  EXPECT_EQ(tables->front().active_per_node, 4);
  const std::vector<std::pair<std::int64_t, std::int64_t>> members{{0, 0}, {1, 0}};  // node and place
  EXPECT_EQ(tables->front().members, members);
}

TEST(NcclTests, SeveralTablesInOneFile) {
  const std::string row =
      " 8388608  262144  float  sum  -1  500.0  16.8  14.7  0  500.0  16.8  14.7  0\n# Avg bus bandwidth : 14.7\n";
  const auto tables = read_nccl_tests("# Collective test starting: reduce_scatter_perf\n" + ranks(1, 8) + row +
                                          "# Collective test starting: sendrecv_perf\n" + ranks(1, 2) + row,
                                      "x.txt");
  ASSERT_TRUE(tables.ok()) << tables.error().message();
  ASSERT_EQ(tables->size(), 2u);
  EXPECT_EQ((*tables)[0].test, CollectiveTest::reduce_scatter);
  EXPECT_EQ((*tables)[1].test, CollectiveTest::send_receive);
  EXPECT_EQ((*tables)[1].ranks, 2);
}

TEST(NcclTests, ReadsJson) {
  const std::string text = R"({"version": "2.19.6", "args": ["./build/alltoall_perf", "-b", "8"], "config": {"devices":
    [{"rank": 0, "group": 0, "hostname": "a", "device_info": "NVIDIA B200"}, {"rank": 1, "group": 0, "hostname": "a"}]},
    "results": [{"size": 1048576, "count": 131072, "type": "float", "redop": "none", "out_of_place": {"time": 50.5, "alg_bw": 20.8, "bus_bw": 10.4}}]})";
  const auto tables = read_nccl_tests(text, "x.json");
  ASSERT_TRUE(tables.ok()) << tables.error().message();
  EXPECT_EQ(tables->front().test, CollectiveTest::all_to_all);
  EXPECT_EQ(tables->front().ranks, 2);
  EXPECT_DOUBLE_EQ(tables->front().rows.front().microseconds, 50.5);
}

/// Reads the text with every '#' lost, as when it was pasted where '#' makes headings.
TEST(NcclTests, WithoutTheHashes) {
  std::string text =
      ranks(1, 8) + kHeader +
      "  1073741824     268435456     float     sum      -1    13867   77.43  135.50       0    13877   77.38  135.41       0\n"
      "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 135.455\n";
  std::erase(text, '#');
  const auto tables = read_nccl_tests(text, "x.txt");
  ASSERT_TRUE(tables.ok()) << tables.error().message();
  EXPECT_EQ(tables->front().test, CollectiveTest::all_reduce);
  EXPECT_EQ(tables->front().ranks, 8);
  EXPECT_TRUE(tables->front().complete);
  EXPECT_EQ(tables->front().device, "NVIDIA H100 80GB HBM3");
}

// 135.50 / 77.43 = 1.75 = 2 · 7/8 means eight ranks. One process with all of them is one node; otherwise it is
// unknown.
TEST(NcclTests, WithoutTheListOfRanks) {
  const std::string row =
      "  1073741824     268435456     float     sum      -1    13867   77.43  135.50       0    13877   77.38  135.41       0\n";
  const auto one =
      read_nccl_tests("# nThread 1 nGpus 8 minBytes 1073741824 maxBytes 1073741824 step: 2(factor)\n" + row, "x.txt");
  ASSERT_TRUE(one.ok()) << one.error().message();
  EXPECT_EQ(one->front().ranks, 8);
  EXPECT_EQ(one->front().nodes, 1);
  for (const char* head : {"", "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor)\n"}) {
    const auto many = read_nccl_tests(head + row, "x.txt");
    ASSERT_FALSE(many.ok());
    EXPECT_NE(many.error().hint.find("8 ranks"), std::string::npos) << many.error().message();
  }
}

TEST(NcclTests, SaysWhatIsWrong) {
  EXPECT_EQ(read_nccl_tests("nothing here\n", "x.txt").error().where, "x.txt:1");
  const std::string row = " 8388608  262144  float  none  -1  500.0  16.8  14.7  0  500.0  16.8  14.7  0\n";
  const auto no_ranks = read_nccl_tests(row, "x.txt");
  ASSERT_FALSE(no_ranks.ok());
  EXPECT_NE(no_ranks.error().found.find("Rank"), std::string::npos);
  const auto which = read_nccl_tests(ranks(1, 8) + row, "x.txt");  // 7/8 without an operation: all-gather or all-to-all
  ASSERT_FALSE(which.ok());
  EXPECT_NE(which.error().hint.find("all_gather_perf"), std::string::npos);
  const auto other = read_nccl_tests("# Collective test starting: broadcast_perf\n" + ranks(1, 8) + row, "x.txt");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().found.find("broadcast_perf"), std::string::npos);
}

// The line that `espalier profile --network` writes before its tables applies to all of them. Other tables have none.
TEST(NcclTests, EspaliersTablesSayUpToWhichSizeMessagesAreDirect) {
  const std::string table = "# Collective test starting: all_gather_perf\n" + ranks(2, 1) + kHeader +
                            "     1048576        262144     float    none      -1    45.10   23.25   40.69       0\n"
                            "# Avg bus bandwidth    : 40\n";
  const auto own =
      read_nccl_tests("# Espalier: from everyone to everyone up to 524288 bytes, rings beyond\n" + table + table, "x.txt");
  ASSERT_TRUE(own.ok()) << own.error().message();
  ASSERT_EQ(own->size(), 2u);
  for (const NcclTable& t : *own) EXPECT_EQ(t.direct_bytes, 524288);
  const auto others = read_nccl_tests(table, "x.txt");
  ASSERT_TRUE(others.ok());
  EXPECT_EQ(others->front().direct_bytes, 0);
}

}  // namespace
}  // namespace espalier::runlog
