// SPDX-License-Identifier: Apache-2.0
// The flow-level network: everything that is in flight anywhere in the cluster shares the links by max-min fairness.
//
// An activity (a transfer, one phase of a collective) has a duration D in ns, which is what the closed form says when
// nothing else is on its links, a part F of it that no sharing stretches (latency, host), and flows. It starts at t;
// its flows begin at t + F, each with a cap of bytes / (D − F), and the activity ends when all of them have ended,
// never before t + D. So where nothing is shared it ends at t + D, to the nanosecond: a flow that always ran at its cap
// is kept in integers.
//
//     rate x_f   max-min fair (solve/max_min.h) under the caps and Σ_f w_fl·x_f ≤ c_l(t), again after each event
//     left       work of a flow in ns at its cap: d(left)/dt = −x_f / cap_f; it ends at the first whole ns at which
//                nothing is left
//     capacity   c_l(t) = nominal · factor(t), piecewise constant
//     bucket     of a link that has one: c_l at most `full` while there are tokens, `sustained` while there are none;
//                d(tokens)/dt =
//                sustained − Σ_f w_fl·x_f, between 0 and the bucket's size, full at the start
//                (espalier/cluster_change.h has the closed forms). It
//                runs empty at the first whole ns at which nothing is left; a link in use below the sustained rate has
//                tokens again at once.
//
// A link is contended while the caps on it sum up to more than its capacity; other links never hold anybody back. When
// a flow begins or ends, or a capacity changes, only flows that contended links join to this event can get a new rate,
// and only those that do are
// solved: first the flows on the links that changed, beside all others as they are; then with them the flows that the
// answer leaves neither at their cap nor on a full link on which nobody is faster; until there is none. That is the
// condition of max-min fairness, flow by flow, and only one set of rates fulfils it. Durations are rounded to whole ns,
// so a cap may exceed what the link gives by a part of 1/(D − F): for the question of contention a flow counts with
// bytes / (D − F + 1).
//
// A flow may go over many links at once, with weights: a ring whose hops advance together is one flow over all its
// hops. Rates are compared as they are, so a byte of a flow should be a byte on the links that it is likely to share.
//
// Events with equal times happen at once, and rates are found after all of them. Answers depend on the calls alone.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "sim/event_heap.h"
#include "solve/max_min.h"

namespace espalier::sim {

using LinkId = std::int32_t;
using ActivityId = std::int64_t;  ///< 0, 1, … in the order of start()

inline constexpr double kPerNanosecond = 1e-9;
/// 146 years in ns: a flow that would take longer stands still, a bucket that would last longer does not run empty.
inline constexpr double kForever = 4.6e18;

struct Flow {
  std::vector<solve::FlowLink> uses;  ///< links in any order, each as often as it is passed
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
  double highest_share = 0.0;  ///< of its capacity at that moment, at most 1
};

/// What the network did, for tests and benchmarks.
struct FlowCounters {
  std::int64_t flow_events = 0;   ///< flows that began or ended
  std::int64_t solves = 0;        ///< times at which rates were found anew
  std::int64_t rounds = 0;        ///< problems solved for them
  std::int64_t flows_solved = 0;  ///< flows in those
};

class FlowNetwork {
 public:
  /// Bytes/s of each link.
  explicit FlowNetwork(const std::vector<double>& capacities);

  /// From `at_ns` on links first … first + count − 1 have `factor` × nominal capacity. Not in the past.
  void change_capacity(std::int64_t at_ns, LinkId first, std::int64_t count, double factor);

  /// Gives a link that has none a token bucket, full now: rates in bytes/s, `sustained` ≤ `full`, `size` in bytes.
  void add_bucket(LinkId link, double full, double sustained, double size);
  /// Tokens of bucket `index`, counted in the order in which buckets were added: what there is now, the least that
  /// there was, and another state than a full one to begin with (before anything starts).
  [[nodiscard]] double tokens(std::size_t index) const;
  [[nodiscard]] double least_tokens(std::size_t index) const;
  [[nodiscard]] std::size_t buckets() const { return buckets_.size(); }
  void set_tokens(std::size_t index, double tokens);

  /// `at_ns` is not in the past. The activity is copied.
  ActivityId start(std::int64_t at_ns, const Activity& activity);

  /// When something will happen next if nothing else is started; none if nothing is under way, or if all that is under
  /// way stands on dead links for good.
  [[nodiscard]] std::optional<std::int64_t> next_event();

  /// Lets time pass until `to_ns`, this moment included, and appends what ended by (time, id).
  void advance(std::int64_t to_ns, std::vector<FinishedActivity>& finished);

  [[nodiscard]] std::int64_t now() const { return now_; }
  [[nodiscard]] std::int64_t active() const { return active_; }  ///< activities started and not ended
  [[nodiscard]] std::int64_t links() const { return static_cast<std::int64_t>(links_.size()); }
  /// Up to now, flows under way with the part that they have moved.
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
    double next = 0.0;            ///< rate in the solution that is being sought
    std::int64_t solved = 0;      ///< number of the last solution that this flow is in
    LinkId bottleneck = kNoLink;  ///< where it was last found to be held: looked at first
    std::vector<Use> uses;
  };
  struct OnLink {
    std::int32_t flow, use;
  };
  struct LinkState {
    double capacity = 0.0;      ///< bytes/ns
    std::int64_t limit = 0;     ///< bytes/s, a hair above the capacity
    std::int64_t demand = 0;    ///< bytes/s: caps of its flows together
    std::int64_t round = 0;     ///< the last one in which it was met
    std::int32_t met = 0;       ///< its place in met_ then
    bool changed = false;       ///< in changed_
    bool touched = false;       ///< in touched_
    std::vector<OnLink> flows;  // what an event reads of a link ends here: one cache line
    double used = 0.0;          ///< bytes/ns
    double nominal = 0.0;       ///< bytes/ns
    double bytes = 0.0;         ///< of flows that ended
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
    double factor = 1.0;                 ///< of the link's nominal capacity
    double tokens = 0.0;                 ///< bytes that were there at `since`
    double least = 0.0;                  ///< of them, ever
    double used = 0.0;                   ///< bytes/ns that flow since then
    std::int64_t since = 0;
    std::int64_t empty_at = kNoTime;
    bool spent = false;  ///< the link gives the sustained rate
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
  /// A contended link on the way of a flow that is being solved.
  struct MetLink {
    LinkId link = 0;
    std::int32_t users = 0;      ///< uses by flows being solved
    std::int32_t number = 0;     ///< in the problem, if there are several
    double capacity = 0.0;       ///< bytes/ns
    double left = 0.0;           ///< what the other flows leave over of it
    double slowest_other = 0.0;  ///< infinite where there is no other
    Load others, load;           ///< of the other flows; of all, with the rates found
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

  // flow_network.cpp: what happens when
  void check(const Activity& activity) const;
  std::int32_t add_flow(std::int32_t activity, const Flow& given, std::int64_t work);
  void begin(std::int32_t activity);
  void finish(std::int32_t activity, std::vector<FinishedActivity>& finished);
  void handle_events(std::vector<FinishedActivity>& finished);
  [[nodiscard]] std::optional<std::int64_t> next_time();
  void apply(const CapacityChange& change);
  void set_capacity(LinkId id, double capacity);

  // flow_buckets.cpp: tokens
  [[nodiscard]] double capacity_of(const BucketState& bucket) const;
  void empty_buckets();
  bool settle_buckets();
  bool settle_bucket(std::int32_t index);
  [[nodiscard]] std::optional<std::int64_t> next_empty_bucket();

  // flow_rates.cpp: who moves how fast
  void begin_flow(std::int32_t slot);
  void end_flow(std::int32_t slot);
  void set_rate(std::int32_t slot, double rate);
  void schedule_end(std::int32_t slot);
  void mark_changed(LinkId id);
  void touch(LinkId id);
  void settle();

  // flow_sharing.cpp: max-min shares
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
      bucket_events_;  ///< also of times that no longer hold

  std::vector<LinkId> changed_;        ///< links whose flows need new rates
  std::vector<LinkId> touched_;        ///< links whose load is not yet in highest_share
  std::vector<std::int32_t> solving_;  ///< flows
  std::vector<std::int32_t> joining_;  ///< flows that need new rates too
  std::vector<MetLink> met_;
  std::vector<MetUse> met_uses_;            ///< of the flows being solved, one after the other
  std::vector<std::size_t> first_met_use_;  ///< by place in solving_, one more at the end
  solve::MaxMinProblem problem_;
  solve::MaxMinSolver solver_;
  FlowCounters counters_;
};

}  // namespace espalier::sim
