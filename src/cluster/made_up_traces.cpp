// SPDX-License-Identifier: Apache-2.0
// Generates traces: rhythms, neighbours, failures, spot instances.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/format.h"
#include "base/invariant.h"
#include "espalier/cluster_change.h"

namespace espalier {
namespace {

/// Implements SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a seed gives the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// Returns an exponentially distributed number above 0.
  double exponential(double mean) {
    const double uniform = (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53;
    return -mean * std::log(uniform);
  }

 private:
  std::uint64_t state_;
};

/// Rounds to whole milliseconds, which CSV files hold exactly.
Seconds rounded(double seconds) { return Seconds(std::round(seconds * 1e3) / 1e3); }

std::string node_name(std::int64_t node) { return cat("node:", node); }

}  // namespace

CapacityTrace diurnal(const std::string& target, Seconds length, Seconds period, double depth, std::int64_t steps) {
  ESPALIER_CHECK(period.count() > 0.0 && steps > 0 && depth >= 0.0 && depth <= 1.0);
  CapacityTrace trace{target, {}};
  const double part = period.count() / static_cast<double>(steps);
  for (std::int64_t i = 0; static_cast<double>(i) * part < length.count(); ++i) {
    const double middle = (static_cast<double>(i % steps) + 0.5) / static_cast<double>(steps);
    const double factor = 1.0 - depth * (1.0 - std::cos(2.0 * std::numbers::pi * middle)) / 2.0;
    trace.changes.push_back({rounded(static_cast<double>(i) * part), factor, 1.0});
  }
  return trace;
}

CapacityTrace bursty_neighbour(const std::string& target, Seconds length, Seconds mean_quiet, Seconds mean_busy, double share,
                               std::uint64_t seed) {
  ESPALIER_CHECK(mean_quiet.count() > 0.0 && mean_busy.count() > 0.0 && share >= 0.0 && share <= 1.0);
  Random random(seed);
  CapacityTrace trace{target, {}};
  bool busy = false;
  double at = random.exponential(mean_quiet.count());
  while (at < length.count()) {
    busy = !busy;
    const Seconds when = rounded(at);
    // The previous state lasted less than a millisecond.
    if (!trace.changes.empty() && trace.changes.back().at >= when) trace.changes.pop_back();
    trace.changes.push_back({when, busy ? 1.0 - share : 1.0, 1.0});
    at += random.exponential(busy ? mean_busy.count() : mean_quiet.count());
  }
  return trace;
}

CapacityTrace failing_nic(std::int64_t node, std::int64_t nics, Seconds at, Seconds repair) {
  ESPALIER_CHECK(nics >= 1 && at.count() >= 0.0 && repair.count() > 0.0);
  const double left = static_cast<double>(nics - 1) / static_cast<double>(nics);
  return {node_name(node), {{at, left, 1.0}, {at + repair, 1.0, 1.0}}};
}

CapacityTrace flapping(const std::string& target, Seconds at, Seconds down, Seconds up, std::int64_t times) {
  ESPALIER_CHECK(down.count() > 0.0 && up.count() > 0.0 && times >= 0);
  CapacityTrace trace{target, {}};
  for (std::int64_t i = 0; i < times; ++i) {
    const Seconds falls = at + (down + up) * static_cast<double>(i);
    trace.changes.push_back({falls, 0.0, 1.0});
    trace.changes.push_back({falls + down, 1.0, 1.0});
  }
  return trace;
}

std::vector<ClusterEvent> pod_loss(std::int64_t first_node, std::int64_t count, Seconds at, Seconds repair) {
  ESPALIER_CHECK(first_node >= 0 && count >= 1 && at.count() >= 0.0 && repair.count() > 0.0);
  std::vector<ClusterEvent> events;
  for (const ClusterEventKind kind : {ClusterEventKind::leave, ClusterEventKind::join})
    for (std::int64_t node = first_node; node < first_node + count; ++node)
      events.push_back({kind == ClusterEventKind::leave ? at : at + repair, kind, node_name(node), 1.0, ""});
  return events;
}

std::vector<ClusterEvent> preemptions(std::int64_t first_node, std::int64_t count, Seconds length, Seconds mean_here,
                                      Seconds mean_away, std::uint64_t seed) {
  ESPALIER_CHECK(first_node >= 0 && count >= 1 && mean_here.count() > 0.0 && mean_away.count() > 0.0);
  std::vector<ClusterEvent> events;
  Random seeds(seed);
  for (std::int64_t node = first_node; node < first_node + count; ++node) {
    Random random(seeds.next());
    bool here = true;
    double at = random.exponential(mean_here.count());
    while (at < length.count()) {
      events.push_back({rounded(at), here ? ClusterEventKind::leave : ClusterEventKind::join, node_name(node), 1.0, ""});
      here = !here;
      at += random.exponential(here ? mean_here.count() : mean_away.count());
    }
  }
  // Nodes were generated one after the other, each in its own order. A stable sort keeps equal times in node order,
  // and a node's own events in order.
  std::stable_sort(events.begin(), events.end(), [](const ClusterEvent& a, const ClusterEvent& b) { return a.at < b.at; });
  return events;
}

}  // namespace espalier
