// SPDX-License-Identifier: Apache-2.0
#include "cost/scattered_stages.h"
#include "plan/engine.h"

#include <gtest/gtest.h>

namespace espalier::cost {
namespace {

Cluster cluster_of(const std::string& text) {
  auto cluster = load_cluster(text, "test");
  EXPECT_TRUE(cluster) << (cluster ? "" : cluster.error().message());
  return cluster ? *cluster : Cluster{};
}

/// Returns nodes of four devices and of one device: 1 GB/s per node, all at full efficiency.
Cluster four_and_ones() {
  const std::string network = "{kind: ethernet, bandwidth: 8Gb/s, nics_per_node: 1, latency: 10us, efficiency: 1, congestion: 0}";
  return cluster_of("groups: [{nodes: 2, devices_per_node: 4, device: v100-sxm-16gb, inter_node: " + network +
                    "}, {nodes: 4, devices_per_node: 1, device: v100-sxm-16gb, inter_node: " + network +
                    "}]\ninter_group: " + network + "\n");
}

/// Returns `dp` replicas on the devices listed, stage after stage.
Pipeline on(const std::vector<std::vector<std::int64_t>>& stages) {
  Pipeline pipeline;
  pipeline.schedule.stages = static_cast<std::int32_t>(stages.size());
  for (const auto& devices : stages) {
    Stage stage;
    for (const std::int64_t device : devices) stage.devices.push_back({device, 1, 1});
    Strategy s;
    s.dp = static_cast<std::int32_t>(devices.size());
    stage.chunks = {Chunk{{LayerRange{0, 0, s}}}};
    pipeline.stages.push_back(stage);
  }
  return pipeline;
}

TEST(ScatteredStages, KnowsWhatLiesInOneGroup) {
  const Cluster c = four_and_ones();
  Pipeline pipeline = on({{0}, {8}});
  pipeline.stages[0].devices = {{0, 4, 1}};
  EXPECT_FALSE(is_scattered(c, pipeline));
  pipeline.stages[0].devices = {{6, 4, 1}};  // 6, 7 of the first group, 8, 9 of the second
  EXPECT_TRUE(is_scattered(c, pipeline));
}

// Four replicas: two are on one quad (2 of its 4 devices: 0.5 GB/s), two on single nodes (1 GB/s each). The quad's
// share decides; a domain holds at least one member.
TEST(ScatteredStages, ARingGoesAtItsNarrowestNode) {
  const Cluster c = four_and_ones();
  const Pipeline pipeline = on({{0, 1, 8, 9}});
  const EngineModel& engine = *find_engine("generic");
  Cluster one;
  one.groups = {c.groups[0]};
  one.inter = c.groups[0].inter;
  const Fabric fabric = ScatteredStages(c, pipeline).fabric(0, Fabric(one, engine), engine);
  EXPECT_NEAR(fabric.levels.back().bandwidth.count() * fabric.levels.back().efficiency, 0.5e9, 1e3);
}

// From the four devices of a quad to four single nodes, its interface carries four messages at 0.25 GB/s each.
// Between single nodes it is 1 GB/s; between devices of one node it is the fabric inside.
TEST(ScatteredStages, MessagesShareTheInterfacesOfTheirNode) {
  const Cluster c = four_and_ones();
  const Pipeline quad = on({{0, 1, 2, 3}, {8, 9, 10, 11}});
  EXPECT_NEAR(ScatteredStages(c, quad).link(0, 1).bandwidth.count(), 0.25e9, 1e3);
  const Pipeline single = on({{8, 9}, {10, 11}});
  EXPECT_NEAR(ScatteredStages(c, single).link(0, 1).bandwidth.count(), 1e9, 1e3);
  const Pipeline inside = on({{0, 4}, {1, 5}});
  EXPECT_GT(ScatteredStages(c, inside).link(0, 1).bandwidth.count(), 10e9);
}

// Four stages are on the devices of a quad, four on single nodes: the gradients of all stages leave the quad at once,
// each at 0.25 GB/s. Two stages of two single nodes each hold the layers of two of these: still 0.25 GB/s out of the
// quad. A pipeline on other nodes meets nothing there.
TEST(ScatteredStages, GradientsOfAllStagesMeetAtOnce) {
  const Cluster c = four_and_ones();
  const auto holding = [&](std::vector<std::vector<std::int64_t>> stages, std::int32_t layers) {
    Pipeline pipeline = on(stages);
    for (std::int32_t i = 0; i < pipeline.schedule.stages; ++i) {
      LayerRange& range = pipeline.stages[static_cast<std::size_t>(i)].chunks.front().ranges.front();
      range.first = i * layers;
      range.last = range.first + layers - 1;
    }
    return pipeline;
  };
  const Pipeline quad = holding({{0}, {1}, {2}, {3}}, 1), ones = holding({{8}, {9}, {10}, {11}}, 1),
                 pairs = holding({{8, 9}, {10, 11}}, 2);
  const ScatteredStages a(c, quad), b(c, ones), d(c, pairs);
  EXPECT_NEAR(a.link(1, b, 1, a.meetings(b)).bandwidth.count(), 0.25e9, 1e3);
  EXPECT_NEAR(b.link(1, a, 1, b.meetings(a)).bandwidth.count(), 0.25e9, 1e3);
  EXPECT_NEAR(a.link(1, b, 1, {}).bandwidth.count(), 1e9, 1e3) << "of no other stages";
  // Two stages on the quad meet four on single nodes, one at a time each: two messages leave the quad.
  const Pipeline two = holding({{0}, {1}}, 2);
  const ScatteredStages e(c, two);
  EXPECT_NEAR(e.link(0, b, 1, e.meetings(b)).bandwidth.count(), 0.5e9, 1e3);
  EXPECT_NEAR(b.link(1, e, 0, b.meetings(e)).bandwidth.count(), 0.5e9, 1e3);
  // Each of the four sends half of its part to either of two nodes: four halves of messages, twice, leave the quad.
  EXPECT_NEAR(a.link(0, d, 0, a.meetings(d)).bandwidth.count(), 0.25e9, 1e3);
}

// A line of 1 Gb/s between two sites carries both messages; a rate of node pairs carries each of them.
TEST(ScatteredStages, LinesAreSharedAndPairsAreNot) {
  for (const auto& [sharing, expected] : {std::pair("line", 0.0625e9), std::pair("node_pair", 0.125e9)}) {
    const Cluster c = cluster_of(
        "groups: [{nodes: 2, devices_per_node: 1, device: v100-sxm-16gb}, {nodes: 2, devices_per_node: 1, device: "
        "v100-sxm-16gb}]\n"
        "links: [{from: a, to: b, bandwidth: 1Gb/s, latency: 30ms, sharing: " +
        std::string(sharing) + ", both: true}]\n");
    const FabricLevel link = ScatteredStages(c, on({{0, 1}, {2, 3}})).link(0, 1);
    EXPECT_NEAR(link.bandwidth.count(), expected, 1e3) << sharing;
    EXPECT_NEAR(link.latency.count(), 0.03, 1e-9);
  }
}

}  // namespace
}  // namespace espalier::cost
