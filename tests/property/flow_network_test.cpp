// SPDX-License-Identifier: Apache-2.0
// Tests properties of the flow-level network: nominal durations where nothing is shared, conservation of bytes, and
// agreement with a simulation that solves everything again at each event.
#include "sim/flow_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "cluster/topology_builders.h"
#include "cost/collective.h"
#include "random.h"
#include "sim/collective_flow.h"
#include "sim/topology_network.h"

namespace espalier::property::flow_network_test {
namespace {

using sim::Activity;
using sim::FinishedActivity;
using sim::FlowNetwork;

/// Returns a cluster of a device of the catalogue, with pods and NICs that are shared or not.
Cluster random_cluster(Random& random) {
  const std::vector<DeviceKind>& devices = device_catalogue();
  while (true) {
    std::string text = "{device: " + random.of(devices).name + ", nodes: " + std::to_string(random.between(1, 12)) +
                       ", devices_per_node: " + std::to_string(random.of<std::int64_t>({1, 2, 4, 8}));
    if (random.one_in(2))
      text += ", inter_node: {kind: fat_tree, bandwidth: 200Gb/s, latency: 5us, nics_per_node: " +
              std::to_string(random.between(1, 8)) + ", oversubscription: " + std::to_string(random.between(1, 4)) +
              ", pod_nodes: " + std::to_string(random.between(1, 4)) + "}";
    const Result<Cluster> cluster = load_cluster(text + "}", "random");
    if (cluster.ok() && cluster->devices() > 1) return *cluster;
  }
}

int level_of(const std::vector<FabricLevel>& levels, std::int64_t a, std::int64_t b) {
  int level = 0;
  while (a / levels[static_cast<std::size_t>(level)].span != b / levels[static_cast<std::size_t>(level)].span) ++level;
  return level;
}

struct Started {
  std::int64_t at;
  Activity activity;
};

/// Starts all activities in order of time, and returns when each ended.
std::vector<std::int64_t> ends_of(FlowNetwork& network, std::vector<Started> plan) {
  std::stable_sort(plan.begin(), plan.end(), [](const Started& a, const Started& b) { return a.at < b.at; });
  std::vector<FinishedActivity> finished;
  for (const Started& one : plan) {
    network.advance(one.at, finished);
    network.start(one.at, one.activity);
  }
  for (auto next = network.next_event(); next; next = network.next_event()) network.advance(*next, finished);
  std::vector<std::int64_t> ends(plan.size(), -1);
  for (const FinishedActivity& one : finished) ends[static_cast<std::size_t>(one.id)] = one.at_ns;
  return ends;
}

// Each device sends messages one after the other to its own peer, at closed-form durations. The closed form gives
// every device its share even if all of them send at once. So no device waits for another, not even on shared
// NICs and trunks.
TEST(FlowNetworkProperty, EqualsTheClosedFormWhereEveryDeviceTalksToOne) {
  Random random(11);
  for (int i = 0; i < cases(150, 3000); ++i) {
    const Cluster cluster = random_cluster(random);
    const std::vector<FabricLevel> levels = cluster.levels();
    const cluster::Topology topology = cluster::nested_topology(cluster);
    FlowNetwork network = sim::flow_network(topology);
    std::vector<std::int64_t> peers(static_cast<std::size_t>(cluster.devices()));
    std::iota(peers.begin(), peers.end(), 0);
    random.shuffle(peers);
    std::vector<Started> plan;
    for (std::int64_t d = 0; d < cluster.devices(); ++d) {
      const std::int64_t peer = peers[static_cast<std::size_t>(d)];
      if (peer == d) continue;
      const int level = level_of(levels, d, peer);
      const FabricLevel& link = levels[static_cast<std::size_t>(level)];
      std::int64_t at = random.below(100'000);
      for (std::int64_t n = random.between(1, 4); n > 0; --n) {
        Started next{at, {}};
        const std::int64_t bytes = random.between(1, std::int64_t{1} << random.between(1, 28));
        next.activity.duration_ns = round_ns(Seconds(cost::point_to_point_s(levels, level, static_cast<double>(bytes)))).count();
        next.activity.fixed_ns = std::min(next.activity.duration_ns, round_ns(link.start + link.latency).count());
        next.activity.flows = {{sim::uses_of(topology.route(d, peer)), bytes}};
        at += next.activity.duration_ns + random.below(3) * random.below(10'000);
        plan.push_back(std::move(next));
      }
    }
    std::stable_sort(plan.begin(), plan.end(), [](const Started& a, const Started& b) { return a.at < b.at; });
    const std::vector<std::int64_t> ends = ends_of(network, plan);
    for (std::size_t a = 0; a < plan.size(); ++a) ASSERT_EQ(ends[a], plan[a].at + plan[a].activity.duration_ns) << "set " << i;
  }
}

/// Returns members of a random run of equal strides, in rising order.
std::vector<std::int64_t> random_group(Random& random, std::int64_t devices, std::int64_t& stride) {
  stride = std::int64_t{1} << random.between(0, 4);
  std::vector<std::int64_t> members;
  std::int64_t size = std::int64_t{2} << random.between(0, 5);
  while (size > 1 && size * stride > devices) size /= 2;
  const std::int64_t blocks = std::max<std::int64_t>(1, devices / (size * stride));
  const std::int64_t first = random.below(blocks) * size * stride + random.below(stride);
  for (std::int64_t i = 0; i < size && first + i * stride < devices; ++i) members.push_back(first + i * stride);
  return members;
}

// A collective alone takes the time of the closed form, wherever its group is: no link on its way has too little
// bandwidth for it.
TEST(FlowNetworkProperty, EqualsTheClosedFormForACollectiveAlone) {
  Random random(17);
  std::int64_t crossing = 0;
  for (int i = 0; i < cases(400, 5000); ++i) {
    const Cluster cluster = random_cluster(random);
    const std::vector<FabricLevel> levels = cluster.levels();
    const cluster::Topology topology = cluster::nested_topology(cluster);
    std::int64_t stride = 1;
    const std::vector<std::int64_t> members = random_group(random, cluster.devices(), stride);
    const auto size = static_cast<std::int64_t>(members.size());
    if (size < 2) continue;
    const cost::Group group = cost::place_group(levels, size, stride);
    const double bytes = static_cast<double>(random.between(1, std::int64_t{1} << random.between(10, 30)));
    const bool exchange = random.one_in(2);
    Started one{0, {}};
    const auto duration = [&](double moved) {
      const double seconds = exchange ? cost::all_to_all_s(levels, group, moved) : cost::all_gather_s(levels, group, moved);
      return round_ns(Seconds(seconds)).count();
    };
    one.activity.duration_ns = duration(bytes);
    one.activity.fixed_ns = duration(0.0);
    const double passed_on = bytes * static_cast<double>(size - 1) / static_cast<double>(size);
    one.activity.flows = {exchange ? sim::exchange_flow(topology, members, bytes) : sim::ring_flow(topology, members, passed_on)};
    crossing += topology.network_domain(members.front()) != topology.network_domain(members.back());
    FlowNetwork network = sim::flow_network(topology);
    const std::vector<std::int64_t> ends = ends_of(network, {one});
    ASSERT_EQ(ends[0], one.activity.duration_ns)
        << "set " << i << ", " << size << " ranks at stride " << stride << (exchange ? ", all-to-all on " : ", all-gather on ")
        << cluster.groups.front().nodes << " x " << cluster.groups.front().devices_per_node << " "
        << cluster.groups.front().device.name;
  }
  EXPECT_GT(crossing, cases(100, 1000));
}

/// Returns activities over random links. With `shared` they use any links, otherwise each has its own.
std::vector<Started> random_activities(Random& random, std::int64_t links, const std::vector<double>& capacities, bool shared) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(links));
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(order);
  std::vector<Started> plan;
  std::size_t next = 0;
  for (std::int64_t n = random.between(2, 30); n > 0; --n) {
    Started one{random.below(3'000'000), {}};
    one.activity.fixed_ns = random.below(2) * random.below(20'000);
    one.activity.duration_ns = one.activity.fixed_ns + random.between(100'000, 2'000'000);
    const double work = static_cast<double>(one.activity.duration_ns - one.activity.fixed_ns) * 1e-9;
    std::map<std::int32_t, double> loads;
    for (std::int64_t flows = random.between(1, 3); flows > 0; --flows) {
      sim::Flow flow;
      double narrowest = 1e12;
      for (std::int64_t uses = random.between(1, 4); uses > 0; --uses) {
        if (!shared && next == order.size()) break;
        const std::int32_t link = shared ? random.of(order) : order[next++];
        flow.uses.push_back({link, 1.0});
        loads[link] += 1.0;
        narrowest = std::min(narrowest, capacities[static_cast<std::size_t>(link)] / loads[link]);
      }
      flow.bytes = static_cast<std::int64_t>(narrowest * work * 0.01 * static_cast<double>(random.between(10, 100)));
      if (!flow.uses.empty()) one.activity.flows.push_back(std::move(flow));
    }
    plan.push_back(std::move(one));
  }
  std::stable_sort(plan.begin(), plan.end(), [](const Started& a, const Started& b) { return a.at < b.at; });
  return plan;
}

std::vector<double> random_capacities(Random& random, std::int64_t links) {
  std::vector<double> capacities;
  for (std::int64_t l = 0; l < links; ++l) capacities.push_back(1e9 * static_cast<double>(random.between(1, 100)));
  return capacities;
}

TEST(FlowNetworkProperty, ActivitiesWithLinksOfTheirOwnTakeTheirDuration) {
  Random random(12);
  for (int i = 0; i < cases(300, 5000); ++i) {
    const std::vector<double> capacities = random_capacities(random, 300);
    const std::vector<Started> plan = random_activities(random, 300, capacities, false);
    FlowNetwork network(capacities);
    const std::vector<std::int64_t> ends = ends_of(network, plan);
    for (std::size_t a = 0; a < plan.size(); ++a) ASSERT_EQ(ends[a], plan[a].at + plan[a].activity.duration_ns) << "set " << i;
  }
}

// Every byte is on each link of its route as often as it passes, no link carries more than its capacity, and no flow
// is faster than alone.
TEST(FlowNetworkProperty, BytesAreConserved) {
  Random random(13);
  std::int64_t stretched = 0;
  for (int i = 0; i < cases(300, 5000); ++i) {
    const std::int64_t links = random.between(2, 12);
    const std::vector<double> capacities = random_capacities(random, links);
    const std::vector<Started> plan = random_activities(random, links, capacities, true);
    FlowNetwork network(capacities);
    for (std::int64_t n = random.below(4); n > 0; --n)
      network.change_capacity(random.below(3'000'000), static_cast<std::int32_t>(random.below(links)), 1,
                              0.1 * static_cast<double>(random.between(1, 10)));
    const std::vector<std::int64_t> ends = ends_of(network, plan);
    std::vector<double> bytes(static_cast<std::size_t>(links), 0.0);
    for (std::size_t a = 0; a < plan.size(); ++a) {
      ASSERT_GE(ends[a], plan[a].at + plan[a].activity.duration_ns);
      stretched += ends[a] > plan[a].at + plan[a].activity.duration_ns;
      for (const sim::Flow& flow : plan[a].activity.flows)
        for (const solve::FlowLink& use : flow.uses) bytes[static_cast<std::size_t>(use.link)] += static_cast<double>(flow.bytes);
    }
    for (std::int64_t l = 0; l < links; ++l) {
      const sim::LinkUtilisation found = network.utilisation(static_cast<std::int32_t>(l));
      const double capacity = capacities[static_cast<std::size_t>(l)];
      ASSERT_DOUBLE_EQ(found.bytes, bytes[static_cast<std::size_t>(l)]);
      // A duration of at least 100,000 ns may have been rounded by one.
      ASSERT_LE(found.bytes, capacity * 1.00001 * static_cast<double>(found.busy_ns) * 1e-9 + 1.0);
      ASSERT_LE(found.highest_share, 1.0);
    }
  }
  EXPECT_GT(stretched, cases(300, 5000));
}

// Reading in between changes nothing: the clock may be moved in steps of any size.
TEST(FlowNetworkProperty, StepsDoNotMatter) {
  Random random(14);
  for (int i = 0; i < cases(100, 1000); ++i) {
    const std::vector<double> capacities = random_capacities(random, 6);
    const std::vector<Started> plan = random_activities(random, 6, capacities, true);
    FlowNetwork events(capacities), steps(capacities);
    const std::vector<std::int64_t> expected = ends_of(events, plan);
    std::vector<FinishedActivity> finished;
    for (const Started& one : plan) steps.start(one.at, one.activity);  // all ahead of time
    for (std::int64_t t = 0; steps.active() > 0; t += random.between(1, 200'000))
      steps.advance(std::max(t, steps.now()), finished);
    ASSERT_EQ(finished.size(), plan.size());
    for (const FinishedActivity& one : finished) ASSERT_EQ(one.at_ns, expected[static_cast<std::size_t>(one.id)]);
  }
}

/// Computes max-min rates the slow way: raises all rates, freezes those at a cap or on a full link, and repeats.
std::vector<double> slow_rates(const std::vector<double>& capacities, const std::vector<const sim::Flow*>& flows,
                               const std::vector<double>& caps) {
  std::vector<double> rates(flows.size(), 0.0), left = capacities;
  std::vector<char> frozen(flows.size(), 0);
  for (std::size_t done = 0; done < flows.size();) {
    std::vector<double> users(capacities.size(), 0.0);
    double level = std::numeric_limits<double>::infinity();
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (frozen[f]) continue;
      level = std::min(level, caps[f]);
      for (const solve::FlowLink& use : flows[f]->uses) users[static_cast<std::size_t>(use.link)] += 1.0;
    }
    for (std::size_t l = 0; l < left.size(); ++l)
      if (users[l] > 0) level = std::min(level, left[l] / users[l]);
    std::vector<char> full(left.size(), 0);
    for (std::size_t l = 0; l < left.size(); ++l) full[l] = users[l] > 0 && left[l] / users[l] <= level * (1 + 1e-12);
    for (std::size_t f = 0; f < flows.size(); ++f) {
      bool held = caps[f] <= level * (1 + 1e-12);
      for (const solve::FlowLink& use : flows[f]->uses) held = held || full[static_cast<std::size_t>(use.link)];
      if (frozen[f] || !held) continue;
      frozen[f] = 1;
      rates[f] = level;
      ++done;
      for (const solve::FlowLink& use : flows[f]->uses) left[static_cast<std::size_t>(use.link)] -= level;
    }
  }
  return rates;
}

struct Moving {
  std::size_t activity;
  const sim::Flow* flow;
  double begins, cap, left;  ///< ns, bytes/ns, bytes
};

constexpr double kNoBytes = 1e-3;  ///< rounding of real numbers

/// Simulates every flow and every event in real numbers.
std::vector<double> slow_ends(const std::vector<double>& capacities, const std::vector<Started>& plan) {
  std::vector<double> per_ns, ends(plan.size());
  for (const double capacity : capacities) per_ns.push_back(capacity * 1e-9);
  std::vector<Moving> moving;
  for (std::size_t a = 0; a < plan.size(); ++a) {
    const Activity& activity = plan[a].activity;
    ends[a] = static_cast<double>(plan[a].at + activity.duration_ns);
    const auto work = static_cast<double>(activity.duration_ns - activity.fixed_ns);
    for (const sim::Flow& flow : activity.flows)
      if (flow.bytes > 0)
        moving.push_back({a, &flow, static_cast<double>(plan[a].at + activity.fixed_ns), static_cast<double>(flow.bytes) / work,
                          static_cast<double>(flow.bytes)});
  }
  double now = 0;
  while (!moving.empty()) {
    std::vector<const sim::Flow*> flows;
    std::vector<double> caps;
    double next = std::numeric_limits<double>::infinity();
    for (const Moving& one : moving) {
      if (one.begins > now) next = std::min(next, one.begins);
      if (one.begins > now) continue;
      flows.push_back(one.flow);
      caps.push_back(one.cap);
    }
    const std::vector<double> rates = slow_rates(per_ns, flows, caps);
    std::size_t i = 0;
    for (const Moving& one : moving)
      if (one.begins <= now) next = std::min(next, now + one.left / rates[i++]);
    i = 0;
    for (Moving& one : moving)
      if (one.begins <= now) one.left -= rates[i++] * (next - now);
    for (const Moving& one : moving)
      if (one.left <= kNoBytes) ends[one.activity] = std::max(ends[one.activity], next);
    moving.erase(std::remove_if(moving.begin(), moving.end(), [](const Moving& one) { return one.left <= kNoBytes; }),
                 moving.end());
    now = next;
  }
  return ends;
}

// Each end is rounded up to a whole ns, which can delay the next one by as much.
TEST(FlowNetworkProperty, EqualsASimulationThatSolvesEverythingAtEachEvent) {
  Random random(15);
  double worst = 0.0;
  for (int i = 0; i < cases(300, 5000); ++i) {
    const std::int64_t links = random.between(2, 12);
    const std::vector<double> capacities = random_capacities(random, links);
    const std::vector<Started> plan = random_activities(random, links, capacities, true);
    FlowNetwork network(capacities);
    const std::vector<std::int64_t> ends = ends_of(network, plan);
    const std::vector<double> expected = slow_ends(capacities, plan);
    for (std::size_t a = 0; a < plan.size(); ++a) {
      worst = std::max(worst, std::abs(static_cast<double>(ends[a]) - expected[a]));
      ASSERT_NEAR(static_cast<double>(ends[a]), expected[a], 20.0) << "set " << i << ", activity " << a;
    }
  }
  RecordProperty("worst_ns", std::to_string(worst));
}

// Flows use neighbouring links, so that one event can move rates along the whole chain.
TEST(FlowNetworkProperty, ChangesTravelAlongAChain) {
  Random random(16);
  std::int64_t most_rounds = 0;
  for (int i = 0; i < cases(10, 100); ++i) {
    const std::int64_t links = random.between(30, 60);
    const std::vector<double> capacities = random_capacities(random, links);
    std::vector<Started> plan;
    for (std::int64_t l = 0; l + 1 < links; ++l) {
      const double narrowest = std::min(capacities[static_cast<std::size_t>(l)], capacities[static_cast<std::size_t>(l + 1)]);
      Started one{random.below(100'000), {}};
      one.activity.duration_ns = random.between(500'000, 2'000'000);
      const auto bytes = static_cast<std::int64_t>(narrowest * 1e-9 * static_cast<double>(one.activity.duration_ns));
      one.activity.flows = {{{{static_cast<std::int32_t>(l), 1.0}, {static_cast<std::int32_t>(l + 1), 1.0}}, bytes}};
      plan.push_back(one);
    }
    std::stable_sort(plan.begin(), plan.end(), [](const Started& a, const Started& b) { return a.at < b.at; });
    FlowNetwork network(capacities);
    const std::vector<std::int64_t> ends = ends_of(network, plan);
    const std::vector<double> expected = slow_ends(capacities, plan);
    for (std::size_t a = 0; a < plan.size(); ++a)
      ASSERT_NEAR(static_cast<double>(ends[a]), expected[a], 200.0) << "set " << i << ", activity " << a;
    most_rounds = std::max(most_rounds, network.counters().rounds - network.counters().solves);
  }
  EXPECT_GT(most_rounds, 0);
  RecordProperty("most_further_rounds", std::to_string(most_rounds));
}

}  // namespace
}  // namespace espalier::property::flow_network_test
