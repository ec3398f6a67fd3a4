// SPDX-License-Identifier: Apache-2.0
// Clusters over time: the state at a given time, how token buckets fill and drain, and synthetic traces for planning.
//
//   const std::vector<Seconds> times = change_times(cluster);               // the times of all changes,
//   const std::vector<ClusterState> states = states_over_time(cluster);     // and the state from each of them on.
//
// Synthetic traces depend only on their arguments and a seed: every machine produces the same bytes. They return
// CapacityTrace and ClusterEvent values, like files; docs/clusters.md plots each of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/cluster.h"

namespace espalier {

// ---- state at a given time ----------------------------------------------------------------------------------------

/// Describes a device that computes slower than at the start.
struct Slowdown {
  std::int64_t device = 0;
  double factor = 1.0;  ///< on its usual durations, above 1
  bool operator==(const Slowdown&) const = default;
};

/// Describes a part of the network that does not have its nominal capacity.
struct CapacityFactor {
  std::string target;   ///< as in CapacityTrace
  double factor = 1.0;  ///< combines the trace and the events
  bool operator==(const CapacityFactor&) const = default;
};

/// Describes a link whose traffic takes another route.
struct Detour {
  std::string link;  ///< "a-b"
  std::string via;   ///< group or site
  bool operator==(const Detour&) const = default;
};

/// Holds all differences from the cluster file after the changes up to and including a given time. Token buckets
/// depend on the traffic and are not part of it.
struct ClusterState {
  std::vector<std::int64_t> away;  ///< missing nodes, ascending
  /// Lists slow devices by id. If one event names a node and another event a device in it, the later event wins.
  std::vector<Slowdown> slow;
  std::vector<CapacityFactor> capacity;  ///< by target
  std::vector<Detour> detours;           ///< by link
  bool operator==(const ClusterState&) const = default;
};

/// Returns the state at a given time. The cluster must have passed its reader: only present nodes leave, and only
/// absent nodes join.
ClusterState state_at(const Cluster& cluster, Seconds at);
/// Returns the times at which something changes, ascending and without duplicates; 0 is always among them.
std::vector<Seconds> change_times(const Cluster& cluster);
/// Returns state_at() for each of change_times(). It replays the events once: run time is linear in
/// their number, not quadratic.
std::vector<ClusterState> states_over_time(const Cluster& cluster);
/// A link with a smaller share of its bandwidth is lost: a large transfer over it would outlast any training run.
inline constexpr double kLostBelow = 1e-6;
/// Returns the state with lost links at factor 0. A node is away when its network connection, or that of one of its
/// devices, is lost. If that would remove every node, only the first present node stays.
ClusterState without_lost_links(const Cluster& cluster, ClusterState state);

// ---- token buckets ------------------------------------------------------------------------------------------------
//
// Tokens are bytes. While traffic flows at rate r, d(tokens)/dt = sustained − r, clamped to 0 … bucket size. The
// highest rate is `full` with tokens and `sustained` without. Starting with T tokens, traffic at the full rate
// empties the bucket after T / (full − sustained).

/// Holds the fill level of a bucket.
struct TokenState {
  double tokens = 0.0;  ///< bytes
};

TokenState full_bucket(const TokenBucket& bucket);
BytesPerSecond highest_rate(const TokenBucket& bucket, TokenState state);
/// Returns how long the highest rate lasts; infinite where full = sustained.
Seconds full_rate_lasts(const TokenBucket& bucket, TokenState state);
/// Returns the state after `time` of traffic at `rate`, or at the rate that the bucket allows if that is lower.
TokenState after(const TokenBucket& bucket, TokenState state, BytesPerSecond rate, Seconds time);
/// Returns the shortest time to move `bytes` from this state: B / full while tokens last, then
/// the rest at the sustained rate.
Seconds time_to_move(const TokenBucket& bucket, TokenState state, double bytes);
/// Returns the same time for the long run of a job that moves `bytes` once per step. It pauses for `pause` between
/// the moves, while tokens arrive. If a step uses more tokens than arrive in a pause, (full − sustained)·bytes/full >
/// sustained·pause, each step begins with min(bucket, sustained·pause) tokens. Otherwise the bucket stays full. The
/// rate of a short benchmark on a full bucket lasts for full_rate_lasts() only.
Seconds lasting_time_to_move(const TokenBucket& bucket, double bytes, Seconds pause);

/// Returns the cluster without its token buckets: each shaped part gets one rate, sustained · (full /
/// sustained)^`share`. Share 0 gives the sustained rate, and share 1 the rate of a full bucket. A level has one
/// figure for all nodes of a group, so the bucket of one node is applied to all of them; times are upper bounds then.
Cluster at_bucket_rates(const Cluster& cluster, double share);

// ---- synthetic traces ---------------------------------------------------------------------------------------------

/// Makes a daily cycle with `steps` equal parts per period: factor = 1 − depth · (1 − cos(2π·t/period))/2, taken in
/// the middle of each part. The factor is nominal at the start of a period and 1 − depth in its middle; depth is in 0
/// … 1.
CapacityTrace diurnal(const std::string& target, Seconds length, Seconds period, double depth, std::int64_t steps = 24);

/// Makes the trace of a neighbour that sends in bursts. Quiet and busy times alternate, exponentially distributed
/// with these means; the factor is 1 − share while the neighbour is busy.
CapacityTrace bursty_neighbour(const std::string& target, Seconds length, Seconds mean_quiet, Seconds mean_busy, double share,
                               std::uint64_t seed);

/// Makes the trace of a node that loses one of `nics` network interfaces at `at` and gets it back after `repair`. The
/// factor is (nics − 1)/nics in between: the best case, in which the others share its load evenly. The worst case
/// halves the node (two devices on one interface).
CapacityTrace failing_nic(std::int64_t node, std::int64_t nics, Seconds at, Seconds repair);

/// Makes the trace of a flapping link: from `at` on, it is down for `down` and then up for `up`, repeated `times`
/// times.
CapacityTrace flapping(const std::string& target, Seconds at, Seconds down, Seconds up, std::int64_t times);

/// Makes nodes first … first + count − 1 leave together at `at` (a rack, a pod, a switch) and join again after
/// `repair`.
std::vector<ClusterEvent> pod_loss(std::int64_t first_node, std::int64_t count, Seconds at, Seconds repair);

/// Makes the events of spot instances. Each node is present for an exponentially distributed time of mean
/// `mean_here`, then away for one of mean `mean_away`. The nodes are independent and all present at the start. Events
/// are ordered by time, then node.
std::vector<ClusterEvent> preemptions(std::int64_t first_node, std::int64_t count, Seconds length, Seconds mean_here,
                                      Seconds mean_away, std::uint64_t seed);

}  // namespace espalier
