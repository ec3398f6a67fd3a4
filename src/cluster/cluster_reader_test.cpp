// SPDX-License-Identifier: Apache-2.0
// Tests cluster files: each form counted by hand, errors with place and hint, the shipped examples.
#include "cluster/cluster_reader.h"
#include "cluster/device_choice.h"
#include "data/source_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace espalier::cluster::cluster_reader_test {
namespace {

using testing::HasSubstr;

Cluster loaded(std::string_view text) {
  auto cluster = load_cluster(text, "cluster.yaml");
  EXPECT_TRUE(cluster.ok()) << (cluster.ok() ? "" : cluster.error().message());
  return cluster.ok() ? *cluster : Cluster{};
}

std::string failure(std::string_view text) {
  auto cluster = load_cluster(text, "cluster.yaml");
  EXPECT_FALSE(cluster.ok()) << text;
  if (cluster.ok()) return "";
  EXPECT_EQ(cluster.error().kind, ErrorKind::bad_input);
  return cluster.error().message();
}

// Two DGX H100 have NVSwitch inside (450 GB/s a direction), and eight 400 Gb/s NICs for eight GPUs outside: 400/8 =
// 50 GB/s each.
TEST(ShortForm, TwoDgxH100) {
  const Cluster c = loaded("{nodes: 2, device: h100-sxm-80gb}");
  EXPECT_EQ(c.devices(), 16);
  EXPECT_TRUE(c.homogeneous());
  const auto levels = c.levels();
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0].kind, FabricKind::nvswitch);
  EXPECT_EQ(levels[0].span, 8);
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.count(), 450e9);
  EXPECT_EQ(levels[1].kind, FabricKind::rail_optimized);
  EXPECT_EQ(levels[1].span, 16);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth.count(), 50e9);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth_alone.count(), 50e9);
  EXPECT_EQ(c.usable_memory(), MiB(81559 - 1552));
  EXPECT_THAT(c.notes, testing::Contains(HasSubstr("devices_per_node = 8")));
}

// A host is given by name, or by a single figure. A device without a known usual host needs all three figures of its
// memory.
TEST(ShortForm, HostsByNameAndByFigure) {
  const auto launch_us = [](const Cluster& c) { return c.groups.front().device.efficiency.kernel_launch.count() * 1e6; };
  const Cluster usual = loaded("{nodes: 1, device: h100-sxm-80gb}"),
                rented = loaded("{nodes: 1, device: h100-sxm-80gb, host: aws-p5}"),
                slow = loaded("{nodes: 1, device: h100-sxm-80gb, host: {kernel_launch: 6us}}"),
                alone = loaded("{nodes: 1, device: t4, host: {kernel_launch: 6us}}");
  EXPECT_DOUBLE_EQ(launch_us(usual), 3.5);
  EXPECT_DOUBLE_EQ(launch_us(rented), 4.5);
  EXPECT_DOUBLE_EQ(rented.groups.front().host.link.count(), 31.5e9);  // PCIe 4 instead of 5
  EXPECT_DOUBLE_EQ(launch_us(slow), 6);
  EXPECT_EQ(slow.groups.front().host.memory, usual.groups.front().host.memory);
  EXPECT_DOUBLE_EQ(launch_us(alone), 6);
  EXPECT_THAT(source_of(rented.groups.front().device, "host"), HasSubstr("EPYC 7R13"));
  EXPECT_THAT(source_of(slow.groups.front().device, "host"), HasSubstr("given in cluster.yaml"));
  const Cluster part = loaded("{nodes: 1, devices_per_node: 2, device: h100-sxm-80gb, host: aws-p5}");
  EXPECT_EQ(part.groups.front().host.memory, GiB(512));
  const Cluster own = loaded("{nodes: 1, device: {base: h100-sxm-80gb, efficiency: {kernel_launch: 2us}}, host: aws-p5}");
  EXPECT_DOUBLE_EQ(launch_us(own), 2);  // as stated for the device itself
  EXPECT_DOUBLE_EQ(launch_us(loaded("{nodes: 1, device: h100-sxm-80gb, host: }")), 3.5);
  EXPECT_THAT(failure("{nodes: 1, device: h100-sxm-80gb, host: aws-p6}"), HasSubstr("aws-p5"));
  EXPECT_THAT(failure("{nodes: 1, device: t4, host: {memory: 1TB}}"), HasSubstr("memory_bandwidth"));
  EXPECT_THAT(failure("{nodes: 1, device: t4, host: {}}"), HasSubstr("memory"));
  EXPECT_THAT(failure("{nodes: 1, device: t4, host: {kernel_launch: 5us, launch: 6us}}"), HasSubstr("launch"));
}

// The contract's example has four V100 that share one 100 Gb/s NIC: 12.5/4 = 3.125 GB/s together, 12.5 GB/s alone.
TEST(ShortForm, SharedNic) {
  const Cluster c = loaded(
      "{nodes: 8, devices_per_node: 4, device: v100-sxm-32gb, inter_node: {bandwidth: 100Gb/s, nics_per_node: 1, latency: 5us}}");
  const auto levels = c.levels();
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0].span, 4);
  EXPECT_EQ(levels[0].kind, FabricKind::nvlink_mesh);
  EXPECT_DOUBLE_EQ(levels[0].per_peer.count(), 33.3e9);
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.count(), 99.9e9);  // four of the eight: three peers each
  EXPECT_EQ(levels[1].span, 32);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth.count(), 3.125e9);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth_alone.count(), 12.5e9);
  EXPECT_DOUBLE_EQ(levels[1].latency.count(), 5e-6);
}

// Half of a DGX H100 has four GPUs with four of the eight NICs.
TEST(ShortForm, SmallerNodeHasFewerNics) {
  const Cluster c = loaded("{nodes: 2, devices_per_node: 4, device: h100-sxm-80gb}");
  EXPECT_DOUBLE_EQ(c.levels()[1].bandwidth.count(), 50e9);
  const Cluster named = loaded("{nodes: 2, device: h100-sxm-80gb, inter_node: {bandwidth: 200Gb/s}}");
  EXPECT_DOUBLE_EQ(named.levels()[1].bandwidth.count(), 25e9);
  EXPECT_THAT(named.notes, testing::Contains(HasSubstr("8 NICs of 25 GB/s a node")));
}

TEST(ShortForm, OneNodeHasNoNetwork) {
  const Cluster c = loaded("{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}");
  EXPECT_TRUE(c.inter.empty());
  EXPECT_EQ(c.levels().size(), 1u);
  EXPECT_TRUE(loaded("{nodes: 1, devices_per_node: 1, device: l4}").levels().empty());
}

// In a PCIe tree of 8, four cards are under a switch at 15.75 GB/s. They share one 15.75 GB/s path to the other
// socket: 3.9375 each.
TEST(ShortForm, PcieTreeSharesTheUplink) {
  const Cluster c = loaded("{nodes: 1, device: titan-rtx}");
  const auto levels = c.levels();
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0].span, 4);
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.count(), 15.75e9);
  EXPECT_EQ(levels[1].span, 8);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth.count(), 3.9375e9);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth_alone.count(), 15.75e9);
  // Four cards are under one switch, and so are two.
  EXPECT_EQ(loaded("{nodes: 1, devices_per_node: 4, device: titan-rtx}").levels().size(), 1u);
  EXPECT_EQ(loaded("{nodes: 1, devices_per_node: 2, device: titan-rtx}").levels()[0].span, 2);
  // Six cards are three a switch, so three share the uplink.
  const auto six = loaded("{nodes: 1, devices_per_node: 6, device: titan-rtx}").levels();
  ASSERT_EQ(six.size(), 2u);
  EXPECT_EQ(six[0].span, 3);
  EXPECT_DOUBLE_EQ(six[1].bandwidth.count(), 5.25e9);
}

// Trays of 4 are in racks of 72: 18 trays need no network; 72 trays are 4 racks, joined by one 400 Gb/s NIC a GPU.
TEST(ShortForm, Nvl72SpansNodes) {
  const Cluster rack = loaded("{nodes: 18, device: gb200-nvl72}");
  ASSERT_EQ(rack.levels().size(), 2u);
  EXPECT_EQ(rack.levels()[0].span, 4);
  EXPECT_EQ(rack.levels()[1].span, 72);
  EXPECT_EQ(rack.levels()[1].kind, FabricKind::nvl72);
  EXPECT_DOUBLE_EQ(rack.levels()[1].bandwidth.count(), 900e9);
  const Cluster racks = loaded("{nodes: 72, device: gb200-nvl72}");
  ASSERT_EQ(racks.levels().size(), 3u);
  EXPECT_EQ(racks.levels()[2].span, 288);
  EXPECT_DOUBLE_EQ(racks.levels()[2].bandwidth.count(), 50e9);
  // 19 trays have no divisor between 9 and 18. The first rack is filled, and the outermost span is a multiple of the
  // rack.
  EXPECT_EQ(loaded("{nodes: 19, device: gb200-nvl72}").levels()[2].span, 144);
}

// There are 64 trays of 4 in racks of 18 trays. 16 divides 64 and lies between 9 and 18, so the job has 16 trays (64
// devices) in each of 4 racks. 20 trays: 10 in each of 2. 36: 18. 16 and 10 fit in one rack. 19 is prime: 18 and 1.
TEST(Segment, DefaultIsTheLargestDivisorBetweenHalfADomainAndAWholeOne) {
  const auto spans = [](const std::string& nodes) {
    std::vector<std::int64_t> out;
    for (const FabricLevel& level : loaded("{nodes: " + nodes + ", device: gb200-nvl72}").levels()) out.push_back(level.span);
    return out;
  };
  EXPECT_EQ(spans("64"), (std::vector<std::int64_t>{4, 64, 256}));
  EXPECT_EQ(spans("32"), (std::vector<std::int64_t>{4, 64, 128}));
  EXPECT_EQ(spans("16"), (std::vector<std::int64_t>{4, 64}));
  EXPECT_EQ(spans("10"), (std::vector<std::int64_t>{4, 40}));
  EXPECT_EQ(spans("20"), (std::vector<std::int64_t>{4, 40, 80}));
  EXPECT_EQ(spans("36"), (std::vector<std::int64_t>{4, 72, 144}));
  EXPECT_EQ(spans("19"), (std::vector<std::int64_t>{4, 72, 144}));
  EXPECT_EQ(spans("1"), (std::vector<std::int64_t>{4}));
  const Cluster sixteen = loaded("{nodes: 64, device: gb200-nvl72}");
  EXPECT_EQ(sixteen.groups.front().segment, 16);
  EXPECT_EQ(sixteen.groups.front().domain_nodes, 18);
  EXPECT_THAT(sixteen.notes, testing::Contains(HasSubstr("segment = 16 nodes of each NVL72 domain of 18 nodes")));
  EXPECT_THAT(loaded("{nodes: 19, device: gb200-nvl72}").notes,
              testing::Contains(HasSubstr("filled in order, the last one holds 1 nodes")));
}

TEST(Segment, OfTheFileIsTaken) {
  EXPECT_EQ(loaded("{nodes: 64, device: gb200-nvl72, segment: 8}").levels()[1].span, 32);
  // Domains are filled in order: 64 = 3 · 18 + 10.
  const Cluster filled = loaded("{nodes: 64, device: gb200-nvl72, segment: 18}");
  EXPECT_EQ(filled.levels()[1].span, 72);
  EXPECT_THAT(filled.notes, testing::Contains(HasSubstr("the last one holds 10 nodes")));
  // With one tray in each, the domain joins nothing; the network does.
  EXPECT_EQ(loaded("{nodes: 64, device: gb200-nvl72, segment: 1}").levels()[1].span, 256);
  // In a list of groups the key is outside the groups.
  const Cluster mixed = loaded("{groups: [{nodes: 32, device: gb200-nvl72}, {nodes: 4, device: b200-sxm}], segment: 8}");
  EXPECT_EQ(mixed.groups[0].inter.front().span, 32);
  EXPECT_EQ(mixed.groups[1].segment, 0);
}

TEST(Segment, MistakesAreNamed) {
  const auto error = [](const char* text) {
    const auto cluster = load_cluster(text, "c.yaml");
    return cluster ? std::string("loaded") : cluster.error().message();
  };
  EXPECT_THAT(error("{nodes: 64, device: gb200-nvl72, segment: 20}"), HasSubstr("at most 18, the nodes of one NVL72 domain"));
  EXPECT_THAT(error("{nodes: 8, device: h100-sxm-80gb, segment: 4}"), HasSubstr("without a common domain"));
  EXPECT_THAT(error("{nodes: 64, device: gb200-nvl72, segment: 0}"), HasSubstr("segment"));
}

// 128 nodes are in pods of 32, 2:1 above: 25 GB/s a GPU in a pod (256 GPUs), 12.5 above, one NIC (25) for a GPU that
// sends alone.
TEST(ShortForm, FatTreeWithOversubscription) {
  const Cluster c =
      loaded("{nodes: 128, device: a100-sxm-80gb, inter_node: {kind: fat_tree, oversubscription: 2, pod_nodes: 32}}");
  const auto levels = c.levels();
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_EQ(levels[1].span, 256);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth.count(), 25e9);
  EXPECT_EQ(levels[2].span, 1024);
  EXPECT_DOUBLE_EQ(levels[2].bandwidth.count(), 12.5e9);
  EXPECT_DOUBLE_EQ(levels[2].bandwidth_alone.count(), 25e9);
  // If all nodes are in one pod, nothing is oversubscribed. If no pod is stated, everything is.
  const Cluster pod = loaded("{nodes: 32, device: a100-sxm-80gb, inter_node: {oversubscription: 2, pod_nodes: 32}}");
  ASSERT_EQ(pod.levels().size(), 2u);
  EXPECT_DOUBLE_EQ(pod.levels()[1].bandwidth.count(), 25e9);
  const Cluster flat = loaded("{nodes: 32, device: a100-sxm-80gb, inter_node: {oversubscription: 2}}");
  EXPECT_DOUBLE_EQ(flat.levels()[1].bandwidth.count(), 12.5e9);
  EXPECT_THAT(flat.notes, testing::Contains(HasSubstr("no pod_nodes")));
}

TEST(ShortForm, IntraNodeOverrides) {
  const Cluster slow =
      loaded("{nodes: 1, device: a100-sxm-80gb, intra_node: {kind: pcie_tree, bandwidth: 24GB/s, latency: 8us}}");
  ASSERT_EQ(slow.levels().size(), 1u);
  EXPECT_EQ(slow.levels()[0].kind, FabricKind::pcie_tree);
  EXPECT_DOUBLE_EQ(slow.levels()[0].bandwidth.count(), 24e9);
  EXPECT_DOUBLE_EQ(slow.levels()[0].latency.count(), 8e-6);
  const Cluster named = loaded("{nodes: 1, device: v100-sxm-16gb, intra_node: pcie3-x16-switch}");
  EXPECT_EQ(named.levels().size(), 2u);
  const Cluster nvls = loaded("{nodes: 1, device: h100-sxm-80gb, intra_node: {in_network_reduction: true}}");
  EXPECT_TRUE(nvls.levels()[0].in_network_reduction);
  EXPECT_DOUBLE_EQ(nvls.levels()[0].bandwidth.count(), 450e9);
}

TEST(ShortForm, MemoryLimitCapsTheDevice) {
  EXPECT_EQ(loaded("{nodes: 1, device: a100-sxm-80gb, memory_limit: 36GiB}").usable_memory(), GiB(36));
  const Cluster above = loaded("{nodes: 1, device: l4, memory_limit: 36GiB}");
  EXPECT_EQ(above.usable_memory(), MiB(23034 - 1000));
  EXPECT_THAT(above.notes, testing::Contains(HasSubstr("memory_limit")));
}

// A group's limit applies only to its devices, even if the cluster's limit is larger. A limit that no device reaches
// leaves a note.
TEST(MixedForm, MemoryLimitOfAGroup) {
  const Cluster c = loaded(
      "{memory_limit: 40GiB, groups: [{nodes: 1, device: a100-sxm-80gb, memory_limit: 36GiB}, {nodes: 1, device: a100-sxm-80gb},"
      "{nodes: 1, device: l4, memory_limit: 36GiB}]}");
  EXPECT_EQ(c.usable_memory(0), GiB(36));
  EXPECT_EQ(c.usable_memory(1), GiB(40));
  EXPECT_EQ(c.usable_memory(2), MiB(23034 - 1000));
  EXPECT_THAT(c.notes, testing::Contains(HasSubstr("groups[2].memory_limit, 36.0 GiB, has no effect: l4 has ")));
  EXPECT_FALSE(load_cluster("{groups: [{nodes: 1, device: l4, memory_limit: 0}, {nodes: 1, device: l4}]}", "c").ok());
}

TEST(Devices, DescribedInPlace) {
  const Cluster based = loaded("{nodes: 1, device: {base: h100-sxm-80gb, memory: 94GiB, efficiency: {gemm_max: 0.7}}}");
  const DeviceKind& d = based.groups[0].device;
  EXPECT_EQ(d.name, "h100-sxm-80gb-modified");
  EXPECT_EQ(d.memory, GiB(94));
  EXPECT_DOUBLE_EQ(d.efficiency.gemm_max, 0.7);
  EXPECT_DOUBLE_EQ(d.efficiency.memory_max, find_device("h100-sxm-80gb")->efficiency.memory_max);
  const Cluster own = loaded(
      "{nodes: 1, devices_per_node: 2, intra_node: {bandwidth: 50GB/s},"
      " device: {name: tpu, peak_tflops: {bf16: 200}, memory: 32GiB, memory_bandwidth: 1TB/s}}");
  EXPECT_EQ(own.groups[0].device.name, "tpu");
  EXPECT_DOUBLE_EQ(own.levels()[0].bandwidth.count(), 50e9);
}

TEST(FullForm, EveryLevelListed) {
  const Cluster c = loaded(R"(
nodes: 4
devices_per_node: 8
device: a100-sxm-80gb
fabric:
  - {name: pair, kind: pcie_tree, span: 2, bandwidth: 64GB/s, latency: 3us, efficiency: 0.8}
  - {name: node, kind: pcie_tree, span: node, uplink: 32GB/s, latency: 4us, efficiency: 0.8}
  - {name: wire, kind: ethernet, span: cluster, bandwidth: 2GB/s, latency: 20us, efficiency: 0.7, oversubscription: 2,
     trace: [{at: 10s, bandwidth_factor: 0.5}, {at: 20s, bandwidth_factor: 1, latency_factor: 3}]}
)");
  const auto levels = c.levels();
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_EQ(c.groups[0].intra.size(), 2u);
  EXPECT_EQ(levels[1].span, 8);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth.count(), 16e9);        // 32 GB/s for the two devices of a pair
  EXPECT_DOUBLE_EQ(levels[1].bandwidth_alone.count(), 32e9);  // the uplink is slower than the 64 GB/s link
  EXPECT_EQ(levels[2].span, 32);
  EXPECT_DOUBLE_EQ(levels[2].bandwidth.count(), 1e9);
  EXPECT_DOUBLE_EQ(levels[2].bandwidth_alone.count(), 2e9);
  ASSERT_EQ(levels[2].trace.size(), 2u);
  EXPECT_DOUBLE_EQ(levels[2].trace[0].at.count(), 10.0);
  EXPECT_DOUBLE_EQ(levels[2].trace[0].bandwidth_factor, 0.5);
  EXPECT_DOUBLE_EQ(levels[2].trace[1].latency_factor, 3.0);
}

// The contract's example has 4·8 A100 and 8·8 V100 over 100 Gb/s. One NIC serves eight devices: 12.5/8 = 1.5625 GB/s.
TEST(MixedForm, GroupsAndWhatJoinsThem) {
  const Cluster c = loaded(
      "{groups: [{nodes: 4, devices_per_node: 8, device: a100-sxm-40gb}, {nodes: 8, devices_per_node: 8, device: v100-sxm-16gb}],"
      " inter_group: {bandwidth: 100Gb/s, latency: 5us}}");
  ASSERT_EQ(c.groups.size(), 2u);
  EXPECT_FALSE(c.homogeneous());
  EXPECT_EQ(c.devices(), 96);
  EXPECT_EQ(c.groups[0].intra.back().span, 8);
  ASSERT_EQ(c.groups[1].inter.size(), 1u);
  EXPECT_DOUBLE_EQ(c.groups[1].inter[0].bandwidth.count(), 6.25e9);  // four 100 Gb/s NICs for eight V100
  ASSERT_EQ(c.inter.size(), 1u);
  EXPECT_EQ(c.inter[0].span, 96);
  EXPECT_DOUBLE_EQ(c.inter[0].bandwidth.count(), 1.5625e9);
  EXPECT_EQ(c.usable_memory(0), MiB(40960 - 1621));
  EXPECT_EQ(c.usable_memory(1), MiB(16160 - 900));
}

TEST(MixedForm, OneGroupIsHomogeneous) {
  const Cluster grouped = loaded("{groups: [{nodes: 2, device: h100-sxm-80gb}]}");
  const Cluster plain = loaded("{nodes: 2, device: h100-sxm-80gb}");
  EXPECT_EQ(grouped.groups, plain.groups);
  EXPECT_EQ(grouped.inter, plain.inter);
}

TEST(Errors, UnknownDevicesListTheNearestFirst) {
  EXPECT_THAT(failure("{nodes: 1, device: h100-smx-80gb}"),
              testing::AllOf(HasSubstr("of the catalogue: h100-sxm-80gb, h100-"), HasSubstr("did you mean h100-sxm-80gb?")));
  EXPECT_THAT(failure("{nodes: 1, device: h1000}"),
              HasSubstr("did you mean h100-500w, h100-nvl, h100-sxm-80gb, h100-pcie-80gb?"));
  EXPECT_THAT(failure("{nodes: 1, device: mi400}"), HasSubstr("of the catalogue: mi300x, mi325x, mi355x, a10, "));
  EXPECT_THAT(failure("{nodes: 1, device: tpu-v7}"), HasSubstr("of the catalogue: tpu-v5e, tpu-v5p, tpu-v6e, "));
  EXPECT_THAT(failure("{nodes: 1, device: gaudi-3}"), HasSubstr("of the catalogue: a10, a100-pcie-40gb, "));
}

TEST(Errors, SayWhereWhatAndWhatNext) {
  EXPECT_THAT(failure("{nodes: 1, device: h100}"), HasSubstr("did you mean h100-500w, h100-nvl, h100-pcie-80gb, h100-sxm-80gb?"));
  EXPECT_THAT(failure("{nodes: 1, device: a100-sxm-80g}"), HasSubstr("a100-sxm-80gb"));
  EXPECT_THAT(failure("{nodes: 1, device: h100-sxm-80gb, devices_pernode: 8}"), HasSubstr("devices_per_node"));
  EXPECT_THAT(failure("{nodes: 1, device: h100-sxm-80gb, inter_node: {bandwith: 1GB/s}}"), HasSubstr("bandwidth"));
  EXPECT_THAT(failure("{device: h100-sxm-80gb}"), HasSubstr("nodes"));
  EXPECT_THAT(failure("{nodes: 1}"), HasSubstr("device"));
  EXPECT_THAT(failure("{nodes: 1, device: v100-sxm-16gb, intra_node: nvswich3}"), HasSubstr("nvswitch3"));
  EXPECT_THAT(failure("[1, 2]"), HasSubstr("cluster.yaml:1:1"));
}

TEST(Errors, ValuesOutOfRange) {
  failure("{nodes: 0, device: h100-sxm-80gb}");
  failure("{nodes: 1000001, device: h100-sxm-80gb}");
  EXPECT_THAT(failure("{nodes: 1000000, devices_per_node: 1024, device: h100-sxm-80gb}"), HasSubstr("10000000 devices"));
  failure("{nodes: -3, device: h100-sxm-80gb}");
  failure("{nodes: 1.5, device: h100-sxm-80gb}");
  failure("{nodes: 99999999999999999999, device: h100-sxm-80gb}");
  failure("{nodes: 1, device: h100-sxm-80gb, memory_limit: 0GiB}");
  failure("{nodes: 1, device: h100-sxm-80gb, memory_limit: -1GiB}");
  failure("{nodes: 1, device: h100-sxm-80gb, memory_limit: 36}");
  failure("{nodes: 2, device: h100-sxm-80gb, inter_node: {bandwidth: 0Gb/s}}");
  failure("{nodes: 2, device: h100-sxm-80gb, inter_node: {oversubscription: 0.5}}");
  failure("{nodes: 2, device: h100-sxm-80gb, inter_node: {efficiency: 1.5}}");
  failure("{nodes: 1, device: {base: h100-sxm-80gb, memory: 1GiB}}");
  failure(
      "{nodes: 1, device: {base: h100-sxm-80gb, efficiency: {overlap_compute_slowdown: 4, overlap_communication_slowdown: 4}}}");
  failure("{groups: []}");
  failure("{groups: 3}");
  failure("{nodes: {}, device: []}");
}

TEST(Errors, FullFormMustNest) {
  const std::string head = "{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb, fabric: ";
  EXPECT_THAT(failure(head + "[{span: 8, bandwidth: 1GB/s}]}"), HasSubstr("16"));
  EXPECT_THAT(failure(head + "[{span: 16, bandwidth: 1GB/s}]}"), HasSubstr("node"));
  EXPECT_THAT(failure(head + "[{span: 8, bandwidth: 1GB/s}, {span: 12, bandwidth: 1GB/s}]}"), HasSubstr("multiple"));
  EXPECT_THAT(failure(head + "[{span: node}, {span: cluster, bandwidth: 1GB/s}]}"), HasSubstr("bandwidth"));
  EXPECT_THAT(
      failure(head + "[{span: node, bandwidth: 1GB/s}, {span: cluster, bandwidth: 1GB/s}], inter_node: {bandwidth: 1GB/s}}"),
      HasSubstr("either"));
  failure(head + "[]}");
}

TEST(Examples, AllLoadAndAreRepeatable) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ESPALIER_SOURCE_DIR "/examples/clusters")) {
    if (entry.path().extension() != ".yaml") continue;  // tables that a cluster names are in separate folders
    SCOPED_TRACE(entry.path().string());
    auto first = load_cluster_file(entry.path().string());
    ASSERT_TRUE(first.ok()) << first.error().message();
    EXPECT_EQ(first->name, entry.path().stem().string());
    EXPECT_EQ(*first, *load_cluster_file(entry.path().string()));
    std::int64_t below = 1;
    for (const FabricLevel& level : first->levels()) {
      EXPECT_GT(level.bandwidth.count(), 0.0);
      EXPECT_GE(level.bandwidth_alone, level.bandwidth);
      if (!first->homogeneous()) continue;
      EXPECT_GT(level.span, below);
      EXPECT_EQ(level.span % below, 0);
      below = level.span;
    }
    EXPECT_TRUE(!first->homogeneous() || below >= first->devices());
    ++count;
  }
  EXPECT_GE(count, 8);
}

TEST(Files, MissingFile) { EXPECT_FALSE(load_cluster_file("/no/such/cluster.yaml").ok()); }

}  // namespace
}  // namespace espalier::cluster::cluster_reader_test
