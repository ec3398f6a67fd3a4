// SPDX-License-Identifier: Apache-2.0
// Implements token buckets in closed form; the equations are in espalier/cluster_change.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/invariant.h"
#include "espalier/cluster_change.h"

namespace espalier {

TokenState full_bucket(const TokenBucket& bucket) { return {static_cast<double>(bucket.bucket.count())}; }

BytesPerSecond highest_rate(const TokenBucket& bucket, TokenState state) {
  return state.tokens > 0.0 ? bucket.full : bucket.sustained;
}

Seconds full_rate_lasts(const TokenBucket& bucket, TokenState state) {
  if (bucket.full <= bucket.sustained) return Seconds(std::numeric_limits<double>::infinity());
  return Seconds(state.tokens / (bucket.full - bucket.sustained).count());
}

TokenState after(const TokenBucket& bucket, TokenState state, BytesPerSecond rate, Seconds time) {
  ESPALIER_CHECK(time.count() >= 0.0 && rate.count() >= 0.0);
  // Without tokens the rate is limited to the sustained one, so that they stay at 0.
  const double sending = std::min(rate, bucket.full).count();
  const double tokens = state.tokens + (bucket.sustained.count() - sending) * time.count();
  return {std::clamp(tokens, 0.0, static_cast<double>(bucket.bucket.count()))};
}

Seconds time_to_move(const TokenBucket& bucket, TokenState state, double bytes) {
  ESPALIER_CHECK(bytes >= 0.0 && bucket.sustained.count() > 0.0);
  const double at_full =
      bucket.full <= bucket.sustained ? bytes : std::min(bytes, bucket.full.count() * full_rate_lasts(bucket, state).count());
  return Seconds(at_full / bucket.full.count() + (bytes - at_full) / bucket.sustained.count());
}

Seconds lasting_time_to_move(const TokenBucket& bucket, double bytes, Seconds pause) {
  ESPALIER_CHECK(pause.count() >= 0.0);
  const double takes = (bucket.full - bucket.sustained).count() * bytes / bucket.full.count();
  const double brings = bucket.sustained.count() * pause.count();
  if (takes <= brings) return time_to_move(bucket, full_bucket(bucket), bytes);
  return time_to_move(bucket, {std::min(brings, static_cast<double>(bucket.bucket.count()))}, bytes);
}

namespace {

/// Limits the bandwidth of a node to `node`, and that of each of its devices to `device`.
void hold_down(std::vector<FabricLevel>& levels, double node, double device) {
  for (FabricLevel& level : levels) {
    level.bandwidth = BytesPerSecond(std::min(level.bandwidth.count(), device));
    level.bandwidth_alone = BytesPerSecond(std::min(level.bandwidth_alone.count(), node));
  }
}

}  // namespace

Cluster at_bucket_rates(const Cluster& cluster, double share) {
  ESPALIER_CHECK(share >= 0.0 && share <= 1.0);
  Cluster out = cluster;
  out.token_buckets.clear();
  for (const TokenBucket& bucket : cluster.token_buckets) {
    const double rate = bucket.sustained.count() * std::pow(bucket.full.count() / bucket.sustained.count(), share);
    const auto target = target_called(cluster, bucket.target, "capacity");
    ESPALIER_CHECK(target.ok());  // readers refuse unknown targets
    if (target->kind == ClusterTarget::Kind::link) {
      BytesPerSecond& link = out.links[static_cast<std::size_t>(target->index)].bandwidth;
      const double part = std::min(1.0, rate / link.count());
      link = BytesPerSecond(link.count() * part);
      // All pairs of groups are at least as fast as this level.
      if (!out.inter.empty()) hold_down(out.inter, rate, out.inter.front().bandwidth.count() * part);
      continue;
    }
    const bool whole_node = target->kind == ClusterTarget::Kind::node;
    NodeGroup& group = out.groups[whole_node ? cluster.group_of_node(target->index) : cluster.group_of(target->index)];
    const double node = whole_node ? rate : rate * static_cast<double>(group.devices_per_node);
    const double device = node / static_cast<double>(group.devices_per_node);
    hold_down(group.inter, whole_node ? node : device, device);
    hold_down(out.inter, whole_node ? node : device, device);
    group.node_bandwidth = BytesPerSecond(std::min(group.node_bandwidth.count(), node));
  }
  return out;
}

}  // namespace espalier
