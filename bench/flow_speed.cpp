// SPDX-License-Identifier: Apache-2.0
// Measures flow events per CPU second of the flow-level network on one core. The cluster has 64 nodes of 8 H100
// with a NIC each, in 4 pipeline stages of 16 replicas. Data-parallel rings of 16 nodes (one a stage and rail)
// run concurrently with pipeline messages between the stages. Every activity starts again some time after it
// ended. Prints one JSON object a line for a ring as one flow over its 32 ports, and one for a ring as 16 flows
// of a hop each.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <random>
#include <vector>

#include "cluster/topology_builders.h"
#include "sim/topology_network.h"

namespace {

using namespace espalier;

constexpr std::int64_t kNodes = 64, kDevicesPerNode = 8, kStages = 4, kReplicas = kNodes / kStages;
constexpr std::int64_t kEvents = 1'000'000;

/// Describes an activity that repeats: after each end it pauses for `pause` ns up to twice that.
struct Repeated {
  sim::Activity activity;
  std::int64_t pause;
};

std::int64_t device(std::int64_t stage, std::int64_t replica, std::int64_t rail) {
  return (stage * kReplicas + replica) * kDevicesPerNode + rail;
}

/// Returns the time of `bytes` on each NIC at the bandwidth of a route.
std::int64_t duration(const cluster::Topology& topology, std::int64_t bytes) {
  return round_ns(Seconds(static_cast<double>(bytes) / cluster::route_bandwidth(topology, device(0, 0, 0), device(0, 1, 0))))
      .count();
}

Repeated ring(const cluster::Topology& topology, std::int64_t stage, std::int64_t rail, bool one_flow) {
  const std::int64_t bytes = std::int64_t{256} << 20;
  Repeated made{{duration(topology, bytes) + 40'000, 40'000, {}}, 3'000'000};
  sim::Flow whole{{}, bytes};
  for (std::int64_t r = 0; r < kReplicas; ++r) {
    const std::vector<cluster::LinkId> hop = topology.route(device(stage, r, rail), device(stage, (r + 1) % kReplicas, rail));
    const std::vector<solve::FlowLink> uses = sim::uses_of(hop);
    whole.uses.insert(whole.uses.end(), uses.begin(), uses.end());
    if (!one_flow) made.activity.flows.push_back({uses, bytes});
  }
  if (one_flow) made.activity.flows.push_back(whole);
  return made;
}

Repeated message(const cluster::Topology& topology, std::int64_t from_stage, std::int64_t to_stage, std::int64_t replica,
                 std::int64_t rail) {
  const std::int64_t bytes = std::int64_t{32} << 20;
  const std::vector<cluster::LinkId> route = topology.route(device(from_stage, replica, rail), device(to_stage, replica, rail));
  return {{duration(topology, bytes) + 5'000, 5'000, {{sim::uses_of(route), bytes}}}, 1'500'000};
}

std::vector<Repeated> traffic(const cluster::Topology& topology, bool one_flow) {
  std::vector<Repeated> all;
  for (std::int64_t stage = 0; stage < kStages; ++stage)
    for (std::int64_t rail = 0; rail < kDevicesPerNode; ++rail) all.push_back(ring(topology, stage, rail, one_flow));
  for (std::int64_t stage = 0; stage + 1 < kStages; ++stage)
    for (std::int64_t replica = 0; replica < kReplicas; ++replica)
      for (std::int64_t rail = 0; rail < kDevicesPerNode; ++rail) {
        all.push_back(message(topology, stage, stage + 1, replica, rail));  // activations
        all.push_back(message(topology, stage + 1, stage, replica, rail));  // their gradients
      }
  return all;
}

struct Measured {
  double seconds = 0.0;
  std::int64_t activities = 0;
  double simulated_s = 0.0;
  sim::FlowCounters counters;
};

Measured measure(const cluster::Topology& topology, bool one_flow) {
  Measured measured;
  const std::vector<Repeated> all = traffic(topology, one_flow);
  sim::FlowNetwork network = sim::flow_network(topology);
  std::mt19937_64 random(1);
  std::vector<std::size_t> kind;  // by activity id
  const std::clock_t begin = std::clock();
  const auto start = [&](std::size_t k, std::int64_t earliest) {
    const auto more = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(all[k].pause));
    network.start(earliest + all[k].pause + more, all[k].activity);
    kind.push_back(k);
  };
  for (std::size_t k = 0; k < all.size(); ++k) start(k, 0);
  std::vector<sim::FinishedActivity> finished;
  while (network.counters().flow_events < kEvents) {
    finished.clear();
    network.advance(*network.next_event(), finished);
    for (const sim::FinishedActivity& one : finished) start(kind[static_cast<std::size_t>(one.id)], one.at_ns);
    measured.activities += static_cast<std::int64_t>(finished.size());
  }
  measured.seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  measured.simulated_s = static_cast<double>(network.now()) * 1e-9;
  measured.counters = network.counters();
  return measured;
}

/// Reports the best of three runs, since other work on the machine can only slow them down.
void report(const cluster::Topology& topology, bool one_flow) {
  Measured best = measure(topology, one_flow);
  for (int again = 0; again < 2; ++again) best.seconds = std::min(best.seconds, measure(topology, one_flow).seconds);
  const sim::FlowCounters& counters = best.counters;
  std::printf(
      "{\"bench\": \"flow\", \"rings\": \"%s\", \"flow_events\": %lld, \"cpu_seconds\": %.3f, \"events_per_cpu_second\": %.0f, "
      "\"activities\": %lld, \"solves\": %lld, \"rounds\": %lld, \"flows_per_round\": %.1f, \"simulated_s\": %.3f}\n",
      one_flow ? "one flow" : "a flow each hop", static_cast<long long>(counters.flow_events), best.seconds,
      static_cast<double>(counters.flow_events) / best.seconds, static_cast<long long>(best.activities),
      static_cast<long long>(counters.solves), static_cast<long long>(counters.rounds),
      static_cast<double>(counters.flows_solved) / static_cast<double>(counters.rounds), best.simulated_s);
}

}  // namespace

int main() {
  const Result<Cluster> cluster = load_cluster("{nodes: 64, devices_per_node: 8, device: h100-sxm-80gb}", "bench");
  if (!cluster.ok()) {
    std::fprintf(stderr, "%s\n", cluster.error().message().c_str());
    return 1;
  }
  const cluster::Topology topology = cluster::nested_topology(*cluster);
  report(topology, true);
  report(topology, false);
  return 0;
}
