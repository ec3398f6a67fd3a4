// SPDX-License-Identifier: Apache-2.0
// Clusters over time: what is there at a moment, how token buckets fill and empty, and made-up traces to plan against.
//
//   const std::vector<Seconds> times = change_times(cluster);                 // when something changes,
//   const std::vector<ClusterState> states = states_over_time(cluster);     // and what is there from then on
//
// Made-up traces are functions of their arguments and a seed alone: the same bytes on every machine. They give
// CapacityTrace and ClusterEvent values, as files do; docs/clusters.md shows each as a picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/cluster.h"

namespace espalier {

// ---- a moment
// --------------------------------------------------------------------------------------------------------------

/// A device that computes slower than at the start.
struct Slowdown {
  std::int64_t device = 0;
  double factor = 1.0;  ///< times its usual duration, above 1
  bool operator==(const Slowdown&) const = default;
};

/// A part of the network that has not its nominal capacity.
struct CapacityFactor {
  std::string target;   ///< as of CapacityTrace
  double factor = 1.0;  ///< of the trace and of events together
  bool operator==(const CapacityFactor&) const = default;
};

/// Traffic of a link that goes another way.
struct Detour {
  std::string link;  ///< "a-b"
  std::string via;   ///< group or site
  bool operator==(const Detour&) const = default;
};

/// What differs from the cluster of the file after all that happens up to and including a moment. Token buckets depend
/// on what was sent and are not part of it.
struct ClusterState {
  std::vector<std::int64_t> away;        ///< nodes that are not there, ascending
  std::vector<Slowdown> slow;            ///< by device; where an event speaks of a node and another of a device in it,
                                         ///< the later
                                         ///< one holds
  std::vector<CapacityFactor> capacity;  ///< by target
  std::vector<Detour> detours;           ///< by link
  bool operator==(const ClusterState&) const = default;
};

/// The cluster's events must be those that a reader accepted: who leaves is there, who joins is away.
ClusterState state_at(const Cluster& cluster, Seconds at);
/// Moments at which something changes, ascending, each once; 0 is always among them.
std::vector<Seconds> change_times(const Cluster& cluster);
/// state_at() of each of change_times(), replayed once: the time grows with the number of events, not with its square.
std::vector<ClusterState> states_over_time(const Cluster& cluster);
/// A link with a smaller share of its bandwidth is lost: what large transfers would take over it is beyond any
/// training.
inline constexpr double kLostBelow = 1e-6;
/// The state in which lost links have a factor of 0, and nodes whose way to the network is lost, or that of one of
/// their devices, are away. If all are, the first one that is there stays, alone.
ClusterState without_lost_links(const Cluster& cluster, ClusterState state);

// ---- token buckets
// ---------------------------------------------------------------------------------------------------------
//
// Tokens are bytes. While a rate r flows, d(tokens)/dt = sustained − r, held between 0 and the bucket's size; the
// highest rate is `full` with tokens and `sustained` without. A flow at full rate from a state of T tokens empties it
// after T / (full − sustained).

struct TokenState {
  double tokens = 0.0;  ///< bytes
};

TokenState full_bucket(const TokenBucket& bucket);
BytesPerSecond highest_rate(const TokenBucket& bucket, TokenState state);
/// How long the highest rate lasts: infinite where full = sustained.
Seconds full_rate_lasts(const TokenBucket& bucket, TokenState state);
/// The state after `time` in which `rate` flowed, or as much of it as the bucket let through.
TokenState after(const TokenBucket& bucket, TokenState state, BytesPerSecond rate, Seconds time);
/// Shortest time to move so many bytes, starting in that state:  B / full as long as tokens last, then the rest at the
/// sustained rate.
Seconds time_to_move(const TokenBucket& bucket, TokenState state, double bytes);
/// The same in the long run of a job that moves `bytes` once a step and pauses for `pause` in between, in which tokens
/// come in. Where a step takes more tokens than a pause brings, (full − sustained)·bytes/full > sustained·pause, each
/// step begins with min(bucket, sustained·pause); else the bucket stays full. What a short benchmark on a full bucket
/// shows lasts for full_rate_lasts() only.
Seconds lasting_time_to_move(const TokenBucket& bucket, double bytes, Seconds pause);

/// The cluster without its token buckets, what they shape at one rate: sustained · (full / sustained)^`share`. 0: what
/// lasts; 1: what a full bucket gives. Levels are one figure for all nodes of a group, so that a bucket of one of them
/// is taken to hold for all: times are upper bounds then.
Cluster at_bucket_rates(const Cluster& cluster, double share);

// ---- made-up traces
// --------------------------------------------------------------------------------------------------------

/// A day's rhythm in `steps` equal parts a period: factor = 1 − depth · (1 − cos(2π·t/period))/2 in the middle of each
/// part; nominal at the start of a period, 1 − depth in its middle. depth in 0 … 1.
CapacityTrace diurnal(const std::string& target, Seconds length, Seconds period, double depth, std::int64_t steps = 24);

/// A neighbour that sends now and then: quiet and busy times follow each other, exponentially distributed with these
/// means; 1 − share while busy.
CapacityTrace bursty_neighbour(const std::string& target, Seconds length, Seconds mean_quiet, Seconds mean_busy, double share,
                               std::uint64_t seed);

/// One of `nics` network interfaces of a node fails at `at` and is repaired after `repair`: (nics − 1)/nics in between.
/// That is the best case, in which the others share its load evenly; the worst halves the node (two devices on one
/// interface).
CapacityTrace failing_nic(std::int64_t node, std::int64_t nics, Seconds at, Seconds repair);

/// A link that is down and up by turns: from `at` on, `down` then `up`, so many times.
CapacityTrace flapping(const std::string& target, Seconds at, Seconds down, Seconds up, std::int64_t times);

/// Nodes first … first + count − 1 leave together at `at` (a rack, a pod, a switch) and join again after `repair`.
std::vector<ClusterEvent> pod_loss(std::int64_t first_node, std::int64_t count, Seconds at, Seconds repair);

/// Spot instances: each of the nodes is there for an exponentially distributed time of mean `mean_here` and then away
/// for one of mean `mean_away`, all independent, all there at the start. By time, then node.
std::vector<ClusterEvent> preemptions(std::int64_t first_node, std::int64_t count, Seconds length, Seconds mean_here,
                                      Seconds mean_away, std::uint64_t seed);

}  // namespace espalier
