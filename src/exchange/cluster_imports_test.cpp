// SPDX-License-Identifier: Apache-2.0
// Tests clusters read from the output of other tools, counted by hand: host lists, layouts of Megatron, levels
// derived from a matrix of links, leaf switches. The written file is also read back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "espalier/imported_cluster.h"
#include "exchange/cluster_readers.h"
#include "exchange/megatron_import.h"
#include "exchange/node_links.h"

namespace espalier::exchange {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct HostList {
  const char* text;
  std::vector<std::string> hosts;  ///< empty: rejected
};

TEST(HostLists, AsSlurmWritesThem) {
  const std::vector<HostList> rows = {
      {"node1", {"node1"}},
      {"node1,node2", {"node1", "node2"}},
      {" node1 , node2 ", {"node1", "node2"}},
      {"node[1-3]", {"node1", "node2", "node3"}},
      {"node[1,3]", {"node1", "node3"}},
      {"node[01-03]", {"node01", "node02", "node03"}},
      {"node[008-011]", {"node008", "node009", "node010", "node011"}},
      {"node[9-11]", {"node9", "node10", "node11"}},
      {"node[1-2,5,7-8]", {"node1", "node2", "node5", "node7", "node8"}},
      {"a[1-2]b", {"a1b", "a2b"}},
      {"a[1-2]b[1-2]", {"a1b1", "a1b2", "a2b1", "a2b2"}},
      {"rack-1.node[1-2]", {"rack-1.node1", "rack-1.node2"}},
      {"gpu_a,gpu_b[3]", {"gpu_a", "gpu_b3"}},
      {"n[5-5]", {"n5"}},
      {"", {}},
      {"node[", {}},
      {"node]", {}},
      {"node[]", {}},
      {"node[a-b]", {}},
      {"node[3-1]", {}},
      {"node[1-]", {}},
      {"node[-3]", {}},
      {"node[[1-2]]", {}},
      {"node 1", {}},
      {"node[1-99999999]", {}},
      {"node;rm", {}},
  };
  for (const HostList& row : rows) {
    const auto hosts = expand_hosts(row.text, "hosts");
    EXPECT_EQ(hosts.ok(), !row.hosts.empty()) << row.text;
    if (hosts) {
      EXPECT_EQ(*hosts, row.hosts) << row.text;
    } else {
      EXPECT_EQ(hosts.error().where, "hosts") << row.text;
      EXPECT_FALSE(hosts.error().expected.empty()) << row.text;
    }
  }
}

struct LayoutRow {
  const char* text;
  std::vector<std::int32_t> blocks;  ///< empty: rejected
};

TEST(MegatronLayouts, BlocksOfEveryStage) {
  const std::vector<LayoutRow> rows = {
      {"EtL", {1}},
      {"EL", {0}},
      {"Et|tL", {1, 1}},
      {"E|t|t|L", {0, 1, 1, 0}},
      {"Ett|tt|tt|ttL", {2, 2, 2, 2}},
      {"Et*4|t*4L", {4, 4}},
      {"Et*4 | t*4 L", {4, 4}},
      {"E,t,t|t,L", {2, 1}},
      {"E(t|)*3L", {1, 1, 1, 0}},
      {"Et|(tt|)*3t*5L", {1, 2, 2, 2, 5}},
      {"E((t|)*2t|)*2L", {1, 1, 1, 1, 1, 1, 0}},
      {"Et*0|tL", {0, 1}},
      {"", {}},
      {"tL", {}},
      {"Et", {}},
      {"tEL", {}},
      {"ELt", {}},
      {"EEtL", {}},
      {"EtLL", {}},
      {"Et|xL", {}},
      {"Et*L", {}},
      {"Et*-1L", {}},
      {"E(tL", {}},
      {"Et)L", {}},
      {"Etm|L", {}},
      {"E(((((((((t)))))))))L", {}},
  };
  for (const LayoutRow& row : rows) {
    const MegatronLayout layout = read_megatron_layout(row.text);
    EXPECT_EQ(layout.fault.empty(), !row.blocks.empty()) << row.text << " " << layout.fault;
    EXPECT_EQ(std::vector<std::int32_t>(layout.blocks.begin(), layout.blocks.end()), row.blocks) << row.text;
  }
}

/// Returns n devices, all pairs `near` apart, with `count` NVLinks between each pair.
NodeLinks alike(std::size_t n, std::int64_t count, PciePath near) {
  NodeLinks links;
  links.nvlinks.assign(n, std::vector<std::int64_t>(n, count));
  links.path.assign(n, std::vector<PciePath>(n, near));
  for (std::size_t i = 0; i < n; ++i) {
    links.nvlinks[i][i] = 0;
    links.path[i][i] = PciePath::same;
  }
  return links;
}

/// Returns n devices in runs of `run`, which are `inside` apart with `count` NVLinks. Runs are `outside` apart
/// without NVLinks.
NodeLinks in_runs(std::size_t n, std::size_t run, std::int64_t count, PciePath inside, PciePath outside) {
  NodeLinks links = alike(n, 0, outside);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j || i / run != j / run) continue;
      links.path[i][j] = inside;
      links.nvlinks[i][j] = count;
    }
  return links;
}

ImportedCluster made(const NodeLinks& links, const std::string& device, std::int64_t nodes = 1) {
  auto out = cluster_of(links, {"file", "", device, nodes, {}, {}, 1, ""});
  EXPECT_TRUE(out.ok()) << (out ? "" : out.error().message());
  return out ? *out : ImportedCluster{};
}
std::vector<std::int64_t> spans(const ImportedCluster& c) {
  std::vector<std::int64_t> out;
  for (const FabricLevel& level : c.cluster.groups.front().intra) out.push_back(level.span);
  return out;
}

TEST(NodeLinksMade, PairsOfBridgesBelowAProcessor) {
  // Pairs of four A40s are bridged by 4 NVLinks of 25 GB/s: 100 GB/s in a pair. Above it, the pair shares x16 of PCIe
  // 4, 31.5 GB/s.
  const ImportedCluster c = made(in_runs(4, 2, 4, PciePath::phb, PciePath::node), "a40");
  EXPECT_THAT(spans(c), ElementsAre(2, 4));
  const std::vector<FabricLevel>& levels = c.cluster.groups.front().intra;
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.count(), 100e9);
  EXPECT_EQ(levels[1].kind, FabricKind::pcie_tree);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth_alone.count(), 31.5e9);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth.count(), 31.5e9 / 2);
}

TEST(NodeLinksMade, ThreeLevelsOfPcie) {
  // Eight L40S have no NVLinks: two are below a switch, four below a processor. All use the socket link, at the
  // default of 16 GB/s.
  NodeLinks links = in_runs(8, 4, 0, PciePath::node, PciePath::sys);
  for (std::size_t i = 0; i < 8; i += 2) links.path[i][i + 1] = links.path[i + 1][i] = PciePath::pix;
  const ImportedCluster c = made(links, "l40s");
  EXPECT_THAT(spans(c), ElementsAre(2, 4, 8));
  const std::vector<FabricLevel>& levels = c.cluster.groups.front().intra;
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.count(), 31.5e9);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth.count(), 31.5e9 / 2);
  EXPECT_DOUBLE_EQ(levels[2].bandwidth.count(), 16e9 / 4);
  EXPECT_DOUBLE_EQ(levels[2].bandwidth_alone.count(), 16e9);
  bool says_socket = false;
  for (const std::string& note : c.notes) says_socket = says_socket || note.find("between processors") != std::string::npos;
  EXPECT_TRUE(says_socket);
}

TEST(NodeLinksMade, WhatTheFileSaysOfSlotsCounts) {
  NodeLinks links = in_runs(4, 2, 0, PciePath::pxb, PciePath::sys);
  links.pcie = 12e9;
  links.socket = 10e9;
  const std::vector<FabricLevel> levels = made(links, "l40s").cluster.groups.front().intra;
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.count(), 12e9);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth.count(), 5e9);  // 10 GB/s, shared by the two below
}

TEST(NodeLinksMade, ASwitchOfHoppersIsTheUsualNode) {
  // 18 NVLinks of 25 GB/s to each of seven others are more than a device has. They imply a switch, and the usual node
  // of H100s.
  const ImportedCluster c = made(alike(8, 18, PciePath::sys), "h100-sxm-80gb", 2);
  EXPECT_EQ(c.cluster.groups.front().intra, usual_cluster("h100-sxm-80gb", 2, 8)->groups.front().intra);
  EXPECT_EQ(c.cluster.nodes(), 2);
}

TEST(NodeLinksMade, UnequalGroupsCountAsPcie) {
  NodeLinks links = alike(3, 0, PciePath::node);
  links.nvlinks[0][1] = links.nvlinks[1][0] = 4;
  const ImportedCluster c = made(links, "a40");
  EXPECT_THAT(spans(c), ElementsAre(3));
  EXPECT_THAT(c.notes, testing::Contains(HasSubstr("counted as PCIe only")));
}

// A table shows only PCIe for eight H100s. Their NVLinks stay where the table may hide them, and PCIe counts where it
// would show them.
TEST(NodeLinksMade, HiddenLinksAreTheUsualOnes) {
  NodeLinks links = in_runs(8, 4, 0, PciePath::phb, PciePath::sys);
  const std::vector<FabricLevel> usual = usual_cluster("h100-sxm-80gb", 1, 8)->groups.front().intra;
  for (const LinksShown shown : {LinksShown::no, LinksShown::unknown}) {
    links.shown = shown;
    const ImportedCluster c = made(links, "h100-sxm-80gb");
    EXPECT_EQ(c.cluster.groups.front().intra, usual);
    EXPECT_THAT(c.notes, testing::Contains(HasSubstr("topo -mp")));
  }
  links.shown = LinksShown::yes;
  const ImportedCluster pcie = made(links, "h100-sxm-80gb");
  EXPECT_THAT(spans(pcie), ElementsAre(4, 8));
  EXPECT_THAT(pcie.notes, testing::Contains(HasSubstr("only PCIe is counted")));
}

std::string rocm(const std::string& text, const std::string& device = "mi300x") {
  const auto out = find_cluster_format("rocm-smi-topo")->read({"rocm.txt", text, device, 1, {}, {}, 1, ""});
  return out ? "accepted" : out.error().message();
}

TEST(RocmTopology, OneHopIsALink) {
  const std::string head = "==== Link Type between two GPUs ====\n       GPU0         GPU1\n";
  const std::string rows = "GPU0   0            XGMI\nGPU1   XGMI         0\n";
  EXPECT_EQ(rocm(head + rows), "accepted");
  // Two hops mean no direct link, so that only PCIe is left.
  const std::string far = "==== Weight between two GPUs ====\n  GPU0 GPU1\nGPU0 0 30\nGPU1 30 0\n" + head + rows;
  const auto two = find_cluster_format("rocm-smi-topo")->read({"rocm.txt", far, "mi300x", 1, {}, {}, 1, ""});
  ASSERT_TRUE(two.ok()) << two.error().message();
  EXPECT_EQ(two->cluster.groups.front().intra.front().kind, FabricKind::pcie_tree);
  EXPECT_THAT(rocm("nothing"), HasSubstr("no table \"Link Type between two GPUs\""));
  EXPECT_THAT(rocm(head + "GPU0   0            XGMI\n"), HasSubstr("rocm.txt:3: found 2 cells in the row of GPU0"));
  EXPECT_THAT(rocm(head + "GPU0   0            XGMI\nGPU1   XGMI\n"), HasSubstr("rocm.txt:4: found 1 cell in the row of GPU1"));
  EXPECT_THAT(rocm(head + "GPU1   XGMI         0\n"), HasSubstr("no row of GPU0"));
  EXPECT_THAT(rocm(head + "GPU0   0            FOO\nGPU1   XGMI         0\n"), HasSubstr("\"FOO\" in the row of GPU0"));
  EXPECT_THAT(rocm(head + "GPU0   0            XGMI\nGPU1   PCIE         0\n"), HasSubstr("differs from the opposite direction"));
  EXPECT_THAT(rocm(head + rows, ""), HasSubstr("--device: found no device"));
}

TEST(NodeLinksMade, NetworkInterfaces) {
  // Eight interfaces of 25 GB/s are near a device each. One of 3 GB/s is near none; it is for storage and does not
  // count.
  NodeLinks links = alike(8, 18, PciePath::sys);
  for (std::size_t k = 0; k < 9; ++k) {
    FoundNic nic{"mlx5_" + std::to_string(k), k < 8 ? 25e9 : 3e9, std::vector<PciePath>(8, PciePath::sys)};
    if (k < 8) nic.path[k] = PciePath::pix;
    links.nics.push_back(std::move(nic));
  }
  const ImportedCluster c = made(links, "h100-sxm-80gb", 4);
  EXPECT_DOUBLE_EQ(c.cluster.inter.front().bandwidth.count(), 25e9);
  EXPECT_THAT(c.notes, testing::Contains(HasSubstr("8 of 9 network interfaces count")));
  // The tables of a virtual machine show no switches. The ninth interface is behind another bridge than every device.
  for (std::size_t k = 0; k < 9; ++k) links.nics[k].path.assign(8, k < 8 ? PciePath::phb : PciePath::node);
  EXPECT_THAT(made(links, "h100-sxm-80gb", 4).notes, testing::Contains(HasSubstr("8 of 9 network interfaces count")));
  // With two of them for eight devices, each device alone may use one. Together they share: 25 · 2 / 8.
  links.nics.resize(2);
  const FabricLevel top = made(links, "h100-sxm-80gb", 4).cluster.inter.front();
  EXPECT_DOUBLE_EQ(top.bandwidth_alone.count(), 25e9);
  EXPECT_DOUBLE_EQ(top.bandwidth.count(), 6.25e9);
}

TEST(NodeLinksMade, AnotherNumberOfDevicesIsRefused) {
  const auto out = cluster_of(alike(4, 4, PciePath::sys), {"topo.txt", "", "a100-sxm-80gb", 1, 8, {}, 1, ""});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().where, "topo.txt");
  EXPECT_EQ(out.error().found, "4 devices");
  EXPECT_THAT(out.error().expected, HasSubstr("8"));
}

ImportedCluster topology(const std::string& text, double oversubscription) {
  auto out =
      find_cluster_format("slurm-topology")->read({"topology.conf", text, "h100-sxm-80gb", {}, 8, {}, oversubscription, ""});
  EXPECT_TRUE(out.ok()) << (out ? "" : out.error().message());
  return out ? *out : ImportedCluster{};
}

TEST(SlurmTopology, LeafSwitches) {
  const std::string text = "SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Nodes=n[4-7]\nSwitchName=top Switches=s[0-1]\n";
  const ImportedCluster flat = topology(text, 1);
  EXPECT_EQ(flat.cluster.nodes(), 8);
  EXPECT_EQ(flat.cluster.inter.size(), usual_cluster("h100-sxm-80gb", 8, 8)->inter.size());
  // 2 to 1 gives a level of 4 nodes of 8 at the full rate, and half of it above.
  const ImportedCluster narrow = topology(text, 2);
  ASSERT_EQ(narrow.cluster.inter.size(), flat.cluster.inter.size() + 1);
  const FabricLevel &leaf = narrow.cluster.inter[narrow.cluster.inter.size() - 2], &above = narrow.cluster.inter.back();
  EXPECT_EQ(leaf.span, 32);
  EXPECT_EQ(above.span, 64);
  EXPECT_DOUBLE_EQ(above.bandwidth.count(), leaf.bandwidth.count() / 2);
}

TEST(ClusterFiles, ThereAndBack) {
  for (const ImportedCluster& c : {made(in_runs(4, 2, 4, PciePath::phb, PciePath::node), "a40"),
                                   made(in_runs(8, 4, 0, PciePath::node, PciePath::sys), "l40s", 2),
                                   made(alike(8, 18, PciePath::sys), "h100-sxm-80gb", 16)}) {
    const auto text = cluster_file(c.cluster, c.notes);
    ASSERT_TRUE(text.ok()) << text.error().message();
    for (const std::string& note : c.notes) EXPECT_THAT(*text, HasSubstr("# " + note));
    const auto again = load_cluster(*text, "file");
    ASSERT_TRUE(again.ok()) << again.error().message() << *text;
    EXPECT_EQ(again->devices(), c.cluster.devices());
    const std::vector<FabricLevel>&before = c.cluster.groups.front().intra, &after = again->groups.front().intra;
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(after[i].span, before[i].span);
      EXPECT_NEAR(after[i].bandwidth.count() / before[i].bandwidth.count(), 1, 1e-6);
    }
  }
}

}  // namespace
}  // namespace espalier::exchange
