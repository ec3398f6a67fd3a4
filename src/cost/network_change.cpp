// SPDX-License-Identifier: Apache-2.0
#include "cost/network_change.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace espalier::cost {
namespace {

/// Rounded terms of a layer's pass or of a message, generously: compute, exposed and hidden parts of either direction, its recomputation,
/// what ZeRO adds at both edges, and the nanoseconds that bounds take off each.
constexpr std::int64_t kTerms = 32;
constexpr std::int64_t kTermsOfStep = 64;  // buckets and tails

/// What is not on the clock: everything else must be equal.
FabricLevel without_speed(FabricLevel level) {
  level.name.clear();
  level.bandwidth = level.bandwidth_alone = level.per_peer = BytesPerSecond(0);
  level.latency = level.start = Seconds(0);
  level.trace.clear();
  return level;
}

bool comparable(const Cluster& a, const Cluster& b, const std::vector<FabricLevel>& before,
                const std::vector<FabricLevel>& after) {
  if (!a.homogeneous() || !b.homogeneous() || before.size() != after.size()) return false;
  for (const Cluster* c : {&a, &b})
    if (c->has_speeds() || c->changes()) return false;
  const NodeGroup &x = a.groups.front(), &y = b.groups.front();
  if (x.nodes != y.nodes || x.devices_per_node != y.devices_per_node || x.intra.size() != y.intra.size()) return false;
  if (x.segment != y.segment || x.domain_nodes != y.domain_nodes || !(x.device == y.device) || !(x.host == y.host)) return false;
  for (std::size_t k = 0; k < before.size(); ++k) {
    if (!(without_speed(before[k]) == without_speed(after[k]))) return false;
    if ((before[k].per_peer.count() > 0) != (after[k].per_peer.count() > 0)) return false;
  }
  return true;
}

/// after/before; what took no time keeps all of it.
double kept(double before, double after) { return before > 0 ? after / before : 1.0; }

/// Least and most that the bytes' part of a level grows by.
struct Volume {
  double least = 1, most = 1;
};

Volume volume_of(const FabricLevel& before, const FabricLevel& after) {
  const double all = before.bandwidth.count() / after.bandwidth.count();
  if (before.per_peer.count() <= 0) return {all, all};
  const double pair = before.per_peer.count() / after.per_peer.count();
  return {std::min(all, pair), std::max(all, pair)};
}

/// Whether times of the level are what they were.
bool equal_speed(const FabricLevel& a, const FabricLevel& b) {
  return a.bandwidth.count() == b.bandwidth.count() && a.per_peer.count() == b.per_peer.count() &&
         a.latency.count() == b.latency.count() && a.start.count() == b.start.count();
}

/// Whether the bytes' part of some group that crosses both may be larger on level i than on level j. A domain of level k − 1 holds at most
/// span_{k−1} members, and where all spans and degrees are powers of two, a group that leaves domains fills two of them at least.
class Domination {
 public:
  Domination(const Cluster& cluster, const std::vector<FabricLevel>& levels) : levels_(levels) {
    const auto power_of_two = [](std::int64_t n) { return (n & (n - 1)) == 0; };
    regular_ = power_of_two(cluster.devices()) &&
               std::all_of(levels.begin(), levels.end(), [&](const FabricLevel& l) { return power_of_two(l.span); });
  }
  [[nodiscard]] bool possible(std::size_t i, std::size_t j) const {
    const FabricLevel &x = levels_[i], &y = levels_[j];
    if (j < i || x.per_peer.count() > 0 || y.per_peer.count() > 0) return true;
    const double inside = domain_below(j) / domain_below(i);
    const double rate_x =
        x.bandwidth.count() * x.efficiency / (1.0 + x.congestion * std::log2(domain_below(i + 1) / domain_below(i)));
    const double rate_y = y.bandwidth.count() * y.efficiency / (1.0 + y.congestion);
    const double exchanged = (regular_ ? 2.0 : domain_below(j)) * (1.0 + x.small_group);  // all-to-all
    return std::max(inside, exchanged) * rate_y * (1.0 + 1e-9) >= rate_x;
  }

 private:
  [[nodiscard]] double domain_below(std::size_t k) const { return k == 0 ? 1.0 : static_cast<double>(levels_[k - 1].span); }

  const std::vector<FabricLevel>& levels_;
  bool regular_ = false;
};

/// Whether level j may count where i did: it slowed down more, or as much and the larger of equal figures is a matter of rounding. What stayed as it
/// was is rounded as it was.
bool may_take_over(const Volume& i, const Volume& j) {
  const bool as_before = i.least == 1.0 && i.most == 1.0 && j.least == 1.0 && j.most == 1.0;
  return !as_before && j.most * (1.0 + 1e-9) >= i.least;
}

/// What times keep where another level's ramp counts.
double kept_of_ramps(const Cluster& cluster, const std::vector<FabricLevel>& levels, const std::vector<Volume>& volumes) {
  const Domination domination(cluster, levels);
  double least = 1.0;
  for (std::size_t i = 0; i < levels.size(); ++i)
    for (std::size_t j = 0; j < levels.size(); ++j)
      if (may_take_over(volumes[i], volumes[j]) && levels[j].ramp < levels[i].ramp && domination.possible(i, j))
        least = std::min(least, (1.0 + levels[j].ramp / 2) / (1.0 + levels[i].ramp / 2));
  return least;
}

/// What compute and a collective beside it keep, where volumes grow `slower` times at most and a bus reaches `bus` bytes/s.
double kept_of_overlap(const DeviceKind& device, double slower, double bus) {
  const DeviceEfficiency& e = device.efficiency;
  if (slower <= 1.0 || e.measured_overlap || e.overlap_traffic <= 0 || device.memory_bandwidth.count() <= 0) return 1.0;
  const double alone = e.overlap_compute_slowdown, fastest = e.overlap_traffic * bus / device.memory_bandwidth.count();
  const double worst = std::min(fastest, alone * std::sqrt(slower));
  const double first = 1.0 / (1.0 + 1.0 / (alone + worst / slower) - 1.0 / (alone + worst));
  const double traffic = 1.0 / e.overlap_communication_slowdown;
  const double second = traffic + (1.0 - traffic) * (alone + fastest / slower) / (alone + fastest);
  return std::min(first, second);
}

/// The fastest bus that collectives of the engine may have.
double fastest_bus(const std::vector<FabricLevel>& levels, const EngineModel& engine) {
  double most = 0;
  for (const FabricLevel& level : levels) most = std::max(most, level.bandwidth.count() * level.efficiency);
  return most / std::min({1.0, engine.coefficients.tensor_communication, engine.coefficients.data_communication});
}

}  // namespace

NetworkChange network_change(const Cluster& a, const Cluster& b, const EngineModel& engine) {
  const std::vector<FabricLevel> before = a.levels(), after = b.levels();
  if (!comparable(a, b, before, after)) return {};
  NetworkChange change{1.0, true};
  std::vector<Volume> volumes;
  for (std::size_t k = 0; k < before.size(); ++k) {
    volumes.push_back(volume_of(before[k], after[k]));
    change.equal = change.equal && equal_speed(before[k], after[k]);
    change.ratio = std::min({change.ratio, volumes[k].least, kept(before[k].latency.count(), after[k].latency.count()),
                             kept(before[k].start.count(), after[k].start.count())});
  }
  double slower = 1.0;
  for (const Volume& v : volumes) slower = std::max(slower, v.most);
  change.ratio *=
      kept_of_ramps(a, before, volumes) * kept_of_overlap(a.groups.front().device, slower, fastest_bus(before, engine));
  if (!std::isfinite(change.ratio) || change.ratio <= 0) return {};
  ESPALIER_CHECK(change.ratio <= 1.0 && (!change.equal || change.ratio == 1.0));
  return change;
}

std::int64_t NetworkChange::bound_after(std::int64_t bound_ns, std::int64_t microbatches, std::int64_t layers) const {
  ESPALIER_CHECK(ratio > 0 && microbatches >= 1 && layers >= 1);
  if (equal || bound_ns == INT64_MAX) return bound_ns;
  // A chunk holds at least a layer, so that there are as many messages as layers at most, each way.
  const std::int64_t allowance = kTerms * (microbatches + 2) * (4 * layers + kTermsOfStep);
  // A millionth of a millionth for the products of real numbers.
  const double left = ratio * (1.0 - 1e-12) * static_cast<double>(bound_ns) - static_cast<double>(allowance);
  return left > 0 ? static_cast<std::int64_t>(left) : 0;
}

}  // namespace espalier::cost
