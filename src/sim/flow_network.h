// SPDX-License-Identifier: Apache-2.0
// Implements the flow-level network: everything in flight anywhere in the cluster shares the links by max-min
// fairness.
//
// An activity (a transfer, one phase of a collective) has flows and a duration D in ns, which is the closed form's time
// with nothing else on its links. A part F of it is not stretched by sharing (latency, host). It starts at t. Its flows
// begin at t + F, each with a cap of bytes / (D − F). The activity ends when all of them have ended, never before t +
// D. If nothing is shared it ends at t + D, to the nanosecond: a flow that always ran at its cap is kept in integers.
//
//     rate x_f   max-min fair (solve/max_min.h) under the caps and Σ_f w_fl·x_f ≤ c_l(t), again after each event
//     left       work of a flow in ns at its cap: d(left)/dt = −x_f / cap_f; it ends at the first whole ns at which
//                nothing is left
//     capacity   c_l(t) = nominal · factor(t), piecewise constant
//     bucket     of a link that has one: c_l is at most `full` while there are tokens, `sustained` while there are
//                none. Tokens change by d(tokens)/dt = sustained − Σ_f w_fl·x_f, between 0 and the bucket's size, and
//                are full at the start (espalier/cluster_change.h has the closed forms). The bucket runs empty at the
//                first whole ns at which nothing is left. A link in use below the sustained rate has tokens again at
//                once.
//
// A link is contended while the caps on it sum up to more than its capacity; other links never limit a flow. When a
// flow begins or ends, or a capacity changes, only flows joined to this event by contended links can get a new rate.
// Only those whose rate changes are solved. First the flows on the changed links are solved, with all others fixed.
// Then flows are added that the answer leaves neither at their cap nor on a full link on which no flow is faster,
// until there are none. That is the condition of max-min fairness, flow by flow, and only one set of rates fulfils it.
//
// Durations are rounded to whole ns, so a cap may exceed the link's capacity by a part of 1/(D − F). To decide
// whether a link is contended, a flow counts with bytes / (D − F + 1).
//
// A flow may use many links at once, with weights: a ring whose hops advance together is one flow over all its hops.
// Rates are compared without scaling, so a byte of a flow should be a byte on the links that it is likely to share.
//
// Events with equal times happen at once, and rates are solved after all of them. Results depend only on the calls.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "sim/event_heap.h"
#include "solve/max_min.h"

namespace espalier::sim {

using LinkId = std::int32_t;
using ActivityId = std::int64_t;  ///< 0, 1, … in the order of start()

inline constexpr double kPerNanosecond = 1e-9;
/// Equals 146 years in ns. A flow that would take longer stands still; a bucket that would last longer does not run
/// empty.
inline constexpr double kForever = 4.6e18;

struct Flow {
  std::vector<solve::FlowLink> uses;  ///< links in any order, each as often as it is used
  std::int64_t bytes = 0;
};

struct Activity {
  std::int64_t duration_ns = 0;  ///< D
  std::int64_t fixed_ns = 0;     ///< F ≤ D
  std::vector<Flow> flows;
};

struct FinishedActivity {
  std::int64_t at_ns = 0;
  ActivityId id = 0;
  bool operator==(const FinishedActivity&) const = default;
};

struct LinkUtilisation {
  double bytes = 0.0;
  std::int64_t busy_ns = 0;    ///< time with at least one flow on the link
  double highest_share = 0.0;  ///< its largest share of the capacity of the moment, at most 1
};

/// Counts the work of the network, for tests and benchmarks.
struct FlowCounters {
  std::int64_t flow_events = 0;   ///< flows that began or ended
  std::int64_t solves = 0;        ///< times at which rates were solved
  std::int64_t rounds = 0;        ///< problems solved for them
  std::int64_t flows_solved = 0;  ///< flows in those problems
};

class FlowNetwork {
 public:
  /// Takes the bytes/s of each link.
  explicit FlowNetwork(const std::vector<double>& capacities);

  /// Sets links first … first + count − 1 to `factor` × nominal capacity from `at_ns` on, which must not be in the
  /// past.
  void change_capacity(std::int64_t at_ns, LinkId first, std::int64_t count, double factor);

  /// Gives a link without a token bucket a full one: rates in bytes/s, `sustained` ≤ `full`, `size` in bytes.
  void add_bucket(LinkId link, double full, double sustained, double size);
  /// Return the present tokens of bucket `index` and their minimum so far. Buckets are numbered in the order in which
  /// they were added. `set_tokens` sets an initial state other than full, before anything starts.
  [[nodiscard]] double tokens(std::size_t index) const;
  [[nodiscard]] double least_tokens(std::size_t index) const;
  [[nodiscard]] std::size_t buckets() const { return buckets_.size(); }
  void set_tokens(std::size_t index, double tokens);

  /// Starts a copy of the activity at `at_ns`, which must not be in the past.
  ActivityId start(std::int64_t at_ns, const Activity& activity);

  /// Returns the time of the next event if nothing else is started. Returns nothing if no activity is in flight, or
  /// if all of them are on permanently dead links.
  [[nodiscard]] std::optional<std::int64_t> next_event();

  /// Advances the time to `to_ns`, inclusive, and appends the ended activities, ordered by (time, id).
  void advance(std::int64_t to_ns, std::vector<FinishedActivity>& finished);

  [[nodiscard]] std::int64_t now() const { return now_; }
  [[nodiscard]] std::int64_t active() const { return active_; }  ///< activities started and not ended
  [[nodiscard]] std::int64_t links() const { return static_cast<std::int64_t>(links_.size()); }
  /// Returns the utilisation up to now. Flows in flight count with the part that they have moved.
  [[nodiscard]] LinkUtilisation utilisation(LinkId link) const;
  [[nodiscard]] const FlowCounters& counters() const { return counters_; }

 private:
  static constexpr LinkId kNoLink = -1;
  static constexpr std::int64_t kNoTime = -1;
  struct Use {
    LinkId link;
    std::int32_t place;  ///< in the link's list
    double weight;
  };
  struct FlowState {
    std::int32_t activity = 0;  ///< slot
    std::int64_t bytes = 0;
    std::int64_t work = 0;  ///< ns at the cap
    double cap = 0.0;       ///< bytes/ns
    double rate = 0.0;      ///< bytes/ns
    double left = 0.0;      ///< ns at the cap that were left at `since`
    std::int64_t since = 0;
    double next = 0.0;            ///< rate in the solution in progress
    std::int64_t solved = 0;      ///< number of the last solution that this flow is in
    LinkId bottleneck = kNoLink;  ///< last known bottleneck: checked first
    std::vector<Use> uses;
  };
  struct OnLink {
    std::int32_t flow, use;
  };
  struct LinkState {
    double capacity = 0.0;      ///< bytes/ns
    std::int64_t limit = 0;     ///< bytes/s, a hair above the capacity
    std::int64_t demand = 0;    ///< bytes/s: total caps of its flows
    std::int64_t round = 0;     ///< last round in which it was met
    std::int32_t met = 0;       ///< its place in met_ then
    bool changed = false;       ///< in changed_
    bool touched = false;       ///< in touched_
    std::vector<OnLink> flows;  // the fields that an event reads end here: one cache line
    double used = 0.0;          ///< bytes/ns
    double nominal = 0.0;       ///< bytes/ns
    double bytes = 0.0;         ///< bytes of ended flows
    double highest_share = 0.0;
    std::int64_t busy = 0, busy_since = 0;
    std::int32_t bucket = -1;  ///< in buckets_; −1: none
    [[nodiscard]] bool contended() const { return demand > limit; }
  };
  struct ActivityState {
    ActivityId id = 0;
    std::int64_t end = 0;  ///< t + D
    std::int32_t pending = 0;
    bool begun = false;
    std::vector<std::int32_t> flows;  ///< slots
  };
  struct CapacityChange {
    std::int64_t at, order;
    LinkId first;
    std::int64_t count;
    double factor;
    bool operator>(const CapacityChange& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  struct BucketState {
    LinkId link = 0;
    double full = 0.0, sustained = 0.0;  ///< bytes/ns
    double size = 0.0;                   ///< bytes
    double factor = 1.0;                 ///< factor of the link's nominal capacity
    double tokens = 0.0;                 ///< bytes at time `since`
    double least = 0.0;                  ///< minimum so far
    double used = 0.0;                   ///< bytes/ns that have flowed since then
    std::int64_t since = 0;
    std::int64_t empty_at = kNoTime;
    bool spent = false;  ///< the link has the sustained rate
  };
  struct BucketEvent {
    std::int64_t at;
    std::int32_t bucket;
    bool operator>(const BucketEvent& other) const { return at != other.at ? at > other.at : bucket > other.bucket; }
  };

  struct Load {
    double sum = 0.0;      ///< bytes/ns
    double fastest = 0.0;  ///< rate of a flow
  };
  /// Describes a contended link on the path of a flow that is being solved.
  struct MetLink {
    LinkId link = 0;
    std::int32_t users = 0;      ///< uses by flows being solved
    std::int32_t number = 0;     ///< in the problem, if there are several
    double capacity = 0.0;       ///< bytes/ns
    double left = 0.0;           ///< capacity that the other flows leave
    double slowest_other = 0.0;  ///< infinite if there is none
    Load others, load;           ///< loads of the other flows; of all, with the new rates
    [[nodiscard]] bool full() const;
  };
  struct MetUse {
    std::int32_t met;
    double weight;
  };

  static EventHeap::Handle flow_handle(std::int32_t slot) { return 2 * slot; }
  static EventHeap::Handle activity_handle(std::int32_t slot) { return 2 * slot + 1; }
  LinkState& link(LinkId id) { return links_[static_cast<std::size_t>(id)]; }
  FlowState& flow(std::int32_t slot) { return flows_[static_cast<std::size_t>(slot)]; }
  ActivityState& activity(std::int32_t slot) { return activities_[static_cast<std::size_t>(slot)]; }

  // flow_network.cpp: handles events
  void check(const Activity& activity) const;
  std::int32_t add_flow(std::int32_t activity, const Flow& given, std::int64_t work);
  void begin(std::int32_t activity);
  void finish(std::int32_t activity, std::vector<FinishedActivity>& finished);
  void handle_events(std::vector<FinishedActivity>& finished);
  [[nodiscard]] std::optional<std::int64_t> next_time();
  void apply(const CapacityChange& change);
  void set_capacity(LinkId id, double capacity);

  // flow_buckets.cpp: updates tokens
  [[nodiscard]] double capacity_of(const BucketState& bucket) const;
  void empty_buckets();
  bool settle_buckets();
  bool settle_bucket(std::int32_t index);
  [[nodiscard]] std::optional<std::int64_t> next_empty_bucket();

  // flow_rates.cpp: sets the rates of flows
  void begin_flow(std::int32_t slot);
  void end_flow(std::int32_t slot);
  void set_rate(std::int32_t slot, double rate);
  void schedule_end(std::int32_t slot);
  void mark_changed(LinkId id);
  void touch(LinkId id);
  void settle();

  // flow_sharing.cpp: computes max-min shares
  void solve_changed();
  void collect(LinkId id);
  void collect_component();
  void meet_links();
  void solve_met();
  bool collect_unheld();
  void collect_faster(std::size_t place);
  [[nodiscard]] double rate_of(const FlowState& state) const {
    return state.solved == counters_.solves ? state.next : state.rate;
  }
  [[nodiscard]] Load load_on(const LinkState& on) const;
  [[nodiscard]] bool holds(LinkId id, double rate) const;
  bool held(FlowState& state, double rate);

  std::int64_t now_ = 0;
  std::int64_t active_ = 0;
  ActivityId next_id_ = 0;
  std::vector<LinkState> links_;
  std::vector<FlowState> flows_;
  std::vector<ActivityState> activities_;
  std::vector<std::int32_t> free_flows_, free_activities_;  ///< slots
  EventHeap events_;
  std::priority_queue<CapacityChange, std::vector<CapacityChange>, std::greater<>> capacity_changes_;
  std::int64_t capacity_changes_made_ = 0;
  std::vector<BucketState> buckets_;
  std::priority_queue<BucketEvent, std::vector<BucketEvent>, std::greater<>>
      bucket_events_;  ///< also at times that are no longer valid

  std::vector<LinkId> changed_;        ///< links whose flows need new rates
  std::vector<LinkId> touched_;        ///< links whose load is not yet in highest_share
  std::vector<std::int32_t> solving_;  ///< flows
  std::vector<std::int32_t> joining_;  ///< flows that also need new rates
  std::vector<MetLink> met_;
  std::vector<MetUse> met_uses_;            ///< uses by the flows being solved, in order
  std::vector<std::size_t> first_met_use_;  ///< by place in solving_, with an extra entry at the end
  solve::MaxMinProblem problem_;
  solve::MaxMinSolver solver_;
  FlowCounters counters_;
};

}  // namespace espalier::sim
