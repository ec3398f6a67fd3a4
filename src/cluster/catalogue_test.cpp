// SPDX-License-Identifier: Apache-2.0
// Tests the shipped catalogue: names, sources, plausible figures.
#include "cluster/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cluster/device_reader.h"

namespace espalier::cluster {
namespace {

// The H100 SXM has 989.4 TFLOP/s dense bf16. nvidia-smi shows 81559 MiB, of which the driver keeps 552 and context
// and NCCL about 1000. 80007 MiB are left for tensors.
TEST(Catalogue, H100) {
  const DeviceKind* h100 = find_device("h100-sxm-80gb");
  ASSERT_NE(h100, nullptr);
  EXPECT_DOUBLE_EQ(h100->peak_of(Precision::bf16).count(), 989.4e12);
  EXPECT_EQ(h100->memory, MiB(81559));
  EXPECT_EQ(h100->memory - h100->context_reserve, MiB(80007));
  EXPECT_DOUBLE_EQ(h100->memory_bandwidth.count(), 3352e9);
  EXPECT_TRUE(h100->calibrated);  // data/calibration/devices.yaml
  EXPECT_EQ(catalogue().usual_node("h100-sxm-80gb")->network.nics, 8);
}

TEST(Catalogue, HoldsTheNamesUsersRelyOn) {
  for (const char* name : {"v100-sxm-16gb",
                           "v100-sxm-32gb",
                           "a100-sxm-40gb",
                           "a100-sxm-80gb",
                           "a100-pcie-80gb",
                           "h100-sxm-80gb",
                           "h100-pcie-80gb",
                           "h200-sxm",
                           "gh200",
                           "h20-sxm",
                           "b200-sxm",
                           "gb200-nvl72",
                           "l4",
                           "a10g",
                           "l40s",
                           "rtx-4090",
                           "titan-rtx",
                           "mi300x",
                           "ascend-910b",
                           "cpu-core",
                           "t4",
                           "a10",
                           "a40",
                           "rtx-2080-ti",
                           "rtx-3090",
                           "rtx-8000",
                           "rtx-6000-ada",
                           "a6000",
                           "l20",
                           "h800",
                           "a800",
                           "a100-pcie-40gb",
                           "h100-nvl",
                           "h100-500w",
                           "b300",
                           "gb300",
                           "mi325x",
                           "mi355x",
                           "tpu-v5e",
                           "tpu-v5p",
                           "tpu-v6e",
                           "trainium2"})
    EXPECT_NE(find_device(name), nullptr) << name;
  EXPECT_EQ(find_device("h100"), nullptr);
  const auto by_name = [](const DeviceKind& a, const DeviceKind& b) { return a.name < b.name; };
  EXPECT_TRUE(std::is_sorted(device_catalogue().begin(), device_catalogue().end(), by_name));
}

TEST(Catalogue, NamesThatDriversPrint) {
  const std::pair<const char*, const char*> names[] = {
      {"NVIDIA H100 80GB HBM3", "h100-sxm-80gb"},
      {"NVIDIA H100 PCIe", "h100-pcie-80gb"},
      {"NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"},
      {"A100-SXM4-40GB", "a100-sxm-40gb"},
      {"NVIDIA A100 80GB PCIe", "a100-pcie-80gb"},
      {"Tesla V100-SXM2-32GB", "v100-sxm-32gb"},
      {"NVIDIA GeForce RTX 4090", "rtx-4090"},
      {"H200", "h200-sxm"},
      {"AMD Instinct MI300X", "mi300x"},
      {"H100_SXM_80GB", "h100-sxm-80gb"},
      {"NVIDIA L40S", "l40s"},
      {"h20", "h20-sxm"},
      {"Tesla T4", "t4"},
      {"NVIDIA A10", "a10"},
      {"NVIDIA A10G", "a10g"},
      {"NVIDIA GeForce RTX 2080 Ti", "rtx-2080-ti"},
      {"NVIDIA GeForce RTX 3090", "rtx-3090"},
      {"Quadro RTX 8000", "rtx-8000"},
      {"NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"},
      {"NVIDIA RTX A6000", "a6000"},
      {"NVIDIA A800-SXM4-80GB", "a800"},
      {"NVIDIA H800", "h800"},
      {"A100-PCIE-40GB", "a100-pcie-40gb"},
      {"NVIDIA H100 NVL", "h100-nvl"},
      {"NVIDIA B300 SXM6 AC", "b300"},
      {"NVIDIA GB300", "gb300"},
      {"AMD Instinct MI355X", "mi355x"},
      {"TPU v5 lite", "tpu-v5e"},
      {"TPU v6 lite", "tpu-v6e"},
      {"trn2", "trainium2"},
  };
  for (const auto& [name, device] : names) {
    ASSERT_NE(device_called(name), nullptr) << name;
    EXPECT_EQ(device_called(name)->name, device);
  }
  for (const char* shared : {"H100", "NVIDIA A100", "V100", "", "tpu"}) EXPECT_EQ(device_called(shared), nullptr) << shared;
}

TEST(Catalogue, EveryFigureHasASource) {
  for (const DeviceKind& device : device_catalogue()) {
    std::set<std::string> sourced;
    for (const auto& [field, source] : device.sources) {
      EXPECT_GE(source.size(), 5u) << device.name << " " << field;
      sourced.insert(field);
    }
    for (std::string_view field : kSourcedFields) EXPECT_TRUE(sourced.count(std::string(field))) << device.name << " " << field;
    const auto efficiency =
        std::find_if(device.sources.begin(), device.sources.end(), [](const auto& s) { return s.first == "efficiency"; });
    EXPECT_THAT(efficiency->second, testing::StartsWith(device.calibrated ? "fitted" : "prior"));
  }
  for (const FabricTemplate& fabric : catalogue().fabrics) EXPECT_GE(fabric.source.size(), 10u) << fabric.name;
}

TEST(Catalogue, FiguresAreOfAPlausibleSize) {
  for (const DeviceKind& d : device_catalogue()) {
    SCOPED_TRACE(d.name);
    if (!d.name.starts_with("tpu-")) {  // Google publishes no fp32 rate
      EXPECT_GT(d.peak_of(Precision::fp32).count(), 0.0);
    }
    EXPECT_TRUE(d.peak_of(Precision::fp16).count() > 0 || d.peak_of(Precision::bf16).count() > 0);
    // A precision half as wide is at least as fast.
    if (d.peak_of(Precision::fp16).count() > 0) {
      EXPECT_GE(d.peak_of(Precision::fp16), d.peak_of(Precision::fp32));
    }
    if (d.peak_of(Precision::fp8).count() > 0) {
      EXPECT_GE(d.peak_of(Precision::fp8), d.peak_of(Precision::bf16));
    }
    if (d.peak_of(Precision::tf32).count() > 0) {
      EXPECT_GE(d.peak_of(Precision::tf32), d.peak_of(Precision::fp32));
    }
    EXPECT_GT(d.context_reserve, MiB(256));
    EXPECT_LT(d.context_reserve.count(), d.memory.count() / 7);
    const UsualNode* node = catalogue().usual_node(d.name);
    ASSERT_NE(node, nullptr);
    EXPECT_GT(node->network.bandwidth.count(), 1e9);
    // Links inside the node are no slower than the network outside.
    const auto levels = resolve_node_levels(catalogue().fabric(node->fabric)->levels, node->devices);
    ASSERT_FALSE(levels.empty());
    EXPECT_EQ(levels.back().span, node->devices);
    EXPECT_GE(levels.front().bandwidth.count(),
              node->network.bandwidth.count() * static_cast<double>(node->network.nics) / static_cast<double>(node->devices));
  }
}

// The newest devices have short forms: NVLink of 8 links at 25 GB/s on an H800, pairs under a bridge on H100 NVL, a
// pod of 256 TPU chips as one domain.
TEST(Catalogue, UsualNodesOfDevicesWithLinksOfTheirOwn) {
  const auto levels = [](const std::string& text) {
    const auto cluster = load_cluster(text, "cluster.yaml");
    EXPECT_TRUE(cluster.ok()) << text;
    return cluster->levels();
  };
  EXPECT_DOUBLE_EQ(levels("{nodes: 1, device: h800}").front().bandwidth.count(), 200e9);
  const auto nvl = levels("{nodes: 2, device: h100-nvl}");
  ASSERT_EQ(nvl.size(), 4u);
  EXPECT_EQ(nvl[0].span, 2);
  EXPECT_EQ(nvl[1].span, 4);
  EXPECT_EQ(nvl[2].span, 8);
  const auto pod = levels("{nodes: 32, device: tpu-v5e}");
  EXPECT_EQ(pod.back().span, 256);
  EXPECT_DOUBLE_EQ(pod.back().bandwidth.count(), 200e9);
  EXPECT_EQ(levels("{nodes: 64, device: tpu-v5e}").size(), 3u);
  for (const DeviceKind& device : device_catalogue())
    EXPECT_TRUE(load_cluster("{nodes: 3, device: " + device.name + "}", "cluster.yaml").ok()) << device.name;
}

TEST(Catalogue, MalformedTextIsAnErrorNotACrash) {
  EXPECT_FALSE(read_catalogue("devices: 3", "x").ok());
  EXPECT_FALSE(read_catalogue("fabrics: {}\ndevices: [{name: x}]", "x").ok());
  EXPECT_FALSE(read_catalogue("[", "x").ok());
}

}  // namespace
}  // namespace espalier::cluster
