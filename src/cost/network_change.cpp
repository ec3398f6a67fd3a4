// SPDX-License-Identifier: Apache-2.0
#include "cost/network_change.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/invariant.h"

namespace espalier::cost {
namespace {

/// Bounds the rounded terms of a layer's pass or of a message, generously. They are compute, exposed and hidden parts
/// of either direction, recomputation, ZeRO's terms at both edges, and the nanoseconds that bounds subtract from
/// each.
constexpr std::int64_t kTerms = 32;
constexpr std::int64_t kTermsOfStep = 64;  // buckets and tails

/// Returns a level without name, speed and trace, in which comparable clusters may differ; everything else must be
/// equal.
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

/// Returns after/before; what took no time keeps all of it.
double kept(double before, double after) { return before > 0 ? after / before : 1.0; }

/// Returns the least share that the bytes' part of a level keeps.
double least_volume(const FabricLevel& before, const FabricLevel& after) {
  const double all = before.bandwidth.count() / after.bandwidth.count();
  return before.per_peer.count() <= 0 ? all : std::min(all, before.per_peer.count() / after.per_peer.count());
}

/// Returns whether times of the level are unchanged.
bool equal_speed(const FabricLevel& a, const FabricLevel& b) {
  return a.bandwidth.count() == b.bandwidth.count() && a.per_peer.count() == b.per_peer.count() &&
         a.latency.count() == b.latency.count() && a.start.count() == b.start.count();
}

}  // namespace

NetworkChange network_change(const Cluster& a, const Cluster& b) {
  const std::vector<FabricLevel> before = a.levels(), after = b.levels();
  if (!comparable(a, b, before, after)) return {};
  NetworkChange change{1.0, true};
  for (std::size_t k = 0; k < before.size(); ++k) {
    change.equal = change.equal && equal_speed(before[k], after[k]);
    change.ratio =
        std::min({change.ratio, least_volume(before[k], after[k]), kept(before[k].latency.count(), after[k].latency.count()),
                  kept(before[k].start.count(), after[k].start.count())});
  }
  if (!std::isfinite(change.ratio) || change.ratio <= 0) return {};
  ESPALIER_CHECK(change.ratio <= 1.0 && (!change.equal || change.ratio == 1.0));
  return change;
}

std::int64_t NetworkChange::bound_after(std::int64_t bound_ns, std::int64_t microbatches, std::int64_t layers) const {
  ESPALIER_CHECK(ratio > 0 && microbatches >= 1 && layers >= 1);
  if (equal || bound_ns == INT64_MAX) return bound_ns;
  // A chunk holds at least one layer, so there are at most as many messages as layers, each way.
  const std::int64_t allowance = kTerms * (microbatches + 2) * (4 * layers + kTermsOfStep);
  // Leaves a millionth of a millionth for products of real numbers.
  const double left = ratio * (1.0 - 1e-12) * static_cast<double>(bound_ns) - static_cast<double>(allowance);
  return left > 0 ? static_cast<std::int64_t>(left) : 0;
}

}  // namespace espalier::cost
