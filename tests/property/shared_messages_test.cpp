// SPDX-License-Identifier: Apache-2.0
// Tests messages between stages on several node groups: the closed form (cost/scattered_stages.h,
// cost/cluster_costs.h) agrees with the links of the topology, which max-min sharing divides. The slowest of messages
// that start together runs at min_l c_l / n_l, with n_l of them on link l of capacity c_l.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/format.h"
#include "cluster/topology_builders.h"
#include "cost/cluster_costs.h"
#include "cost/scattered_stages.h"
#include "plan/process_groups.h"
#include "random.h"

namespace espalier::property::shared_messages_test {
namespace {

const int kClusters = cases(400, 4000);

std::string network_of(Random& random) {
  return cat("{kind: ethernet, bandwidth: ", random.of(std::vector<int>{10, 25, 100, 400}),
             "Gb/s, nics_per_node: ", random.of(std::vector<int>{1, 2, 4}), ", latency: 10us, efficiency: 0.",
             random.of(std::vector<int>{5, 8}), ", congestion: 0}");
}

Cluster any_cluster(Random& random, bool links) {
  const int groups = static_cast<int>(random.between(2, 3));
  std::string text, join;
  for (int g = 0; g < groups; ++g)
    text += cat(g == 0 ? "" : ", ", "{name: g", g, ", nodes: ", random.between(1, 3),
                ", devices_per_node: ", random.of(std::vector<int>{4, 8}),
                ", device: a100-sxm-40gb, inter_node: ", network_of(random), "}");
  for (int a = 0; a < groups && links; ++a)
    for (int b = a + 1; b < groups; ++b)
      join += cat(join.empty() ? "" : ", ", "{from: g", a, ", to: g", b, ", bandwidth: ", random.of(std::vector<int>{1, 10, 100}),
                  "Gb/s, latency: 10us, sharing: ", random.of(std::vector<std::string>{"line", "node", "node_pair"}),
                  ", both: true}");
  auto cluster = load_cluster(
      cat("{groups: [", text, "], ", links ? cat("links: [", join, "]") : cat("inter_group: ", network_of(random)), "}"), "test");
  EXPECT_TRUE(cluster.ok()) << (cluster ? "" : cluster.error().message());
  return *cluster;
}

/// Returns stages of `sizes` devices each, spread over the whole cluster.
Pipeline any_pipeline(Random& random, const Cluster& cluster, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> devices;
  for (std::int64_t d = 0; d < cluster.devices(); ++d) devices.push_back(d);
  random.shuffle(devices);
  Pipeline pipeline;
  pipeline.schedule.stages = static_cast<std::int32_t>(sizes.size());
  for (const std::int64_t size : sizes) {
    Stage stage;
    for (std::int64_t n = 0; n < size; ++n, devices.pop_back()) stage.devices.push_back({devices.back(), 1, 1});
    Strategy s;
    s.dp = static_cast<std::int32_t>(size);
    stage.chunks = {Chunk{{LayerRange{0, 0, s}}}};
    pipeline.stages.push_back(stage);
  }
  return pipeline;
}

/// Returns the seconds per byte of the busier end, on the fullest link between nodes; 0 if no message leaves a node.
double on_links(const cluster::Topology& topology, const Cluster& cluster, const std::vector<std::int64_t>& a,
                const std::vector<std::int64_t>& b) {
  std::map<cluster::LinkId, double> loads;
  const std::size_t pairs = std::max(a.size(), b.size());
  const double part = static_cast<double>(std::min(a.size(), b.size())) / static_cast<double>(pairs);
  for (std::size_t n = 0; n < pairs; ++n) {
    const std::int64_t from = a[n * a.size() / pairs], to = b[n * b.size() / pairs];
    if (cluster.node_of(from) == cluster.node_of(to)) continue;
    for (const cluster::LinkId link : topology.route(from, to)) loads[link] += part;
  }
  double most = 0;
  for (const auto& [link, load] : loads) most = std::max(most, load / topology.range_of(link).capacity);
  return most;
}

TEST(SharedMessages, TheClosedFormTakesWhatTheFullestLinkTakes) {
  int equal = 0, compared = 0;
  for (int n = 0; n < kClusters; ++n) {
    Random random(static_cast<std::uint64_t>(n));
    const Cluster cluster = any_cluster(random, n % 2 == 0);
    const auto topology = cluster::topology_of(cluster);
    ASSERT_TRUE(topology.ok());
    const std::int64_t size = random.of<std::int64_t>({1, 1, 2, 4}), other = random.one_in(3) ? 1 : size;
    const Pipeline pipeline = any_pipeline(random, cluster, {size, other});
    const std::vector<std::int64_t> a = devices_of(pipeline.stages[0].devices), b = devices_of(pipeline.stages[1].devices);
    const double links = on_links(*topology, cluster, a, b);
    if (links <= 0) continue;
    const double closed = 1.0 / cost::ScatteredStages(cluster, pipeline).link(0, 1).bandwidth.count();
    EXPECT_GE(closed, links * (1 - 1e-9)) << "seed " << n;
    ++compared;
    equal += closed <= links * (1 + 1e-9) ? 1 : 0;
  }
  EXPECT_GT(compared, kClusters / 2);
  EXPECT_GT(equal, compared * 3 / 4) << equal << " of " << compared;
}

}  // namespace
}  // namespace espalier::property::shared_messages_test
