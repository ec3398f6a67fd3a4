// SPDX-License-Identifier: Apache-2.0
// Compares the flow-level network with SimGrid's on random platforms. SimGrid runs its plain max-min model: CM02
// without factors, TCP window or cross traffic, one latency for all routes (CM02 weighs shares by latency). The test
// is built where CMake finds SimGrid (Debian: libsimgrid-dev).
#include <gtest/gtest.h>
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "sim/flow_network.h"
#include "sim/topology_network.h"

namespace espalier {
namespace {

namespace sg4 = simgrid::s4u;

constexpr int kPlatforms = 20;

struct Message {
  std::int64_t start_ns;
  std::int32_t route;
  std::int64_t bytes;
  double rate;  ///< bytes/s of this message
};

/// Holds a platform in seconds and megabytes, since SimGrid's clock has a grain of about a microsecond.
struct Platform {
  double latency_s;                               ///< one latency for every route
  std::vector<double> capacities;                 ///< bytes/s
  std::vector<std::vector<std::int32_t>> routes;  ///< links
  std::vector<Message> messages;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::mt19937_64 engine_;
};

Platform random_platform(std::uint64_t seed) {
  Random random(seed);
  Platform made;
  made.latency_s = 0.001 * static_cast<double>(random.between(0, 1) * random.between(1, 50));
  for (std::int64_t n = random.between(3, 15); n > 0; --n)
    made.capacities.push_back(1e6 * static_cast<double>(random.between(5, 100)));
  const auto links = static_cast<std::int64_t>(made.capacities.size());
  for (std::int64_t n = random.between(5, 20); n > 0; --n) {
    std::vector<std::int32_t> route;
    for (std::int64_t hops = random.between(1, 4); hops > 0; --hops) {
      const auto link = static_cast<std::int32_t>(random.between(0, links - 1));
      if (std::find(route.begin(), route.end(), link) == route.end()) route.push_back(link);
    }
    made.routes.push_back(route);
  }
  for (std::int64_t n = random.between(10, 60); n > 0; --n) {
    Message message{random.between(0, 20'000) * 1'000'000, 0, random.between(1, 200) * 1'000'000, 0.0};
    message.route = static_cast<std::int32_t>(random.between(0, static_cast<std::int64_t>(made.routes.size()) - 1));
    double narrowest = 1e18;
    for (const std::int32_t link : made.routes[static_cast<std::size_t>(message.route)])
      narrowest = std::min(narrowest, made.capacities[static_cast<std::size_t>(link)]);
    message.rate = narrowest * 0.1 * static_cast<double>(random.between(2, 10));
    made.messages.push_back(message);
  }
  std::sort(made.messages.begin(), made.messages.end(),
            [](const Message& a, const Message& b) { return a.start_ns < b.start_ns; });
  return made;
}

std::vector<double> our_ends(const Platform& platform) {
  sim::FlowNetwork network(platform.capacities);
  std::vector<sim::FinishedActivity> finished;
  for (const Message& message : platform.messages) {
    sim::Activity activity;
    activity.fixed_ns = round_ns(Seconds(platform.latency_s)).count();
    activity.duration_ns = activity.fixed_ns + round_ns(Seconds(static_cast<double>(message.bytes) / message.rate)).count();
    activity.flows = {{sim::uses_of(platform.routes[static_cast<std::size_t>(message.route)]), message.bytes}};
    network.start(message.start_ns, activity);
  }
  for (auto next = network.next_event(); next; next = network.next_event()) network.advance(*next, finished);
  std::vector<double> ends(platform.messages.size(), 0.0);
  for (const sim::FinishedActivity& one : finished)
    ends[static_cast<std::size_t>(one.id)] = static_cast<double>(one.at_ns) * 1e-9;
  return ends;
}

std::string label(const std::string& platform, std::size_t message) { return platform + "message" + std::to_string(message); }

/// Adds hosts, links and routes of one platform. Each message has its own pair of hosts and a link of its own before
/// the others, with the latency and with its cap as bandwidth. This is necessary because SimGrid 3.32 ignores
/// set_rate() of messages between hosts.
void add_platform(sg4::NetZone& zone, const Platform& platform, const std::string& name) {
  std::vector<sg4::Link*> links;
  for (std::size_t l = 0; l < platform.capacities.size(); ++l) {
    sg4::Link* link = zone.create_link(name + "link" + std::to_string(l), platform.capacities[l]);
    link->set_latency(0.0);
    link->seal();
    links.push_back(link);
  }
  for (std::size_t m = 0; m < platform.messages.size(); ++m) {
    const Message& message = platform.messages[m];
    sg4::Host* from = zone.create_host(label(name, m) + "from", 1e9);
    sg4::Host* to = zone.create_host(label(name, m) + "to", 1e9);
    sg4::Link* own = zone.create_link(label(name, m), message.rate);
    own->set_latency(platform.latency_s);
    own->seal();
    std::vector<sg4::LinkInRoute> way{sg4::LinkInRoute(own)};
    for (const std::int32_t link : platform.routes[static_cast<std::size_t>(message.route)])
      way.emplace_back(links[static_cast<std::size_t>(link)]);
    zone.add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, way, false);
  }
}

void add_messages(const Platform& platform, const std::string& name, std::vector<double>& ends) {
  ends.assign(platform.messages.size(), -1.0);
  for (std::size_t m = 0; m < platform.messages.size(); ++m) {
    const Message message = platform.messages[m];
    sg4::Host* from = sg4::Host::by_name(label(name, m) + "from");
    sg4::Host* to = sg4::Host::by_name(label(name, m) + "to");
    double* end = &ends[m];
    sg4::Actor::create(label(name, m), from, [message, from, to, end] {
      sg4::this_actor::sleep_until(static_cast<double>(message.start_ns) * 1e-9);
      sg4::Comm::sendto(from, to, static_cast<std::uint64_t>(message.bytes));
      *end = sg4::Engine::get_clock();
    });
  }
}

// A process has one SimGrid engine, so all platforms are in one zone.
TEST(SimGrid, RandomPlatformsAgreeWithinOnePercent) {
  std::string program = "simgrid_tests", quiet = "--log=root.thres:error";
  std::vector<char*> arguments{program.data(), quiet.data(), nullptr};
  int count = 2;
  sg4::Engine engine(&count, arguments.data());
  for (const char* option : {"network/model:CM02", "network/optim:Full", "network/TCP-gamma:0", "network/crosstraffic:0",
                             "network/weight-S:0", "network/bandwidth-factor:1", "network/latency-factor:1"})
    sg4::Engine::set_config(option);
  sg4::NetZone* zone = sg4::create_full_zone("platforms");
  std::vector<Platform> platforms;
  for (int i = 0; i < kPlatforms; ++i) {
    platforms.push_back(random_platform(static_cast<std::uint64_t>(100 + i)));
    add_platform(*zone, platforms.back(), "p" + std::to_string(i));
  }
  zone->seal();
  std::vector<std::vector<double>> theirs(platforms.size());
  for (std::size_t i = 0; i < platforms.size(); ++i) add_messages(platforms[i], "p" + std::to_string(i), theirs[i]);
  engine.run();

  double worst = 0.0;
  std::size_t messages = 0, stretched = 0;
  for (std::size_t i = 0; i < platforms.size(); ++i) {
    const std::vector<double> ours = our_ends(platforms[i]);
    for (std::size_t m = 0; m < ours.size(); ++m) {
      const Message& message = platforms[i].messages[m];
      const double start = static_cast<double>(message.start_ns) * 1e-9;
      const double alone = platforms[i].latency_s + static_cast<double>(message.bytes) / message.rate;
      const double took = ours[m] - start, took_there = theirs[i][m] - start;
      worst = std::max(worst, std::abs(took - took_there) / took_there);
      stretched += took > 1.01 * alone;
      ++messages;
      EXPECT_NEAR(took, took_there, 0.01 * took_there) << "platform " << i << ", message " << m;
    }
  }
  EXPECT_GT(stretched, messages / 3);  // enough messages share links for a meaningful comparison
  RecordProperty("messages", static_cast<int>(messages));
  RecordProperty("stretched", static_cast<int>(stretched));
  RecordProperty("worst_relative_difference", std::to_string(worst));
}

}  // namespace
}  // namespace espalier
