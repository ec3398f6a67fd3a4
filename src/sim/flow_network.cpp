// SPDX-License-Identifier: Apache-2.0
// Handles events of the flow-level network: activities start, their flows begin and end, capacities change.
#include "sim/flow_network.h"

#include <algorithm>
#include <cmath>

#include "base/invariant.h"

namespace espalier::sim {
namespace {

constexpr double kMostBytesPerSecond = 1e15;  ///< nominal, the limit of the cluster readers
constexpr double kMostFactor = 1000.0;

/// Converts a capacity in bytes/ns to a limit on demands in bytes/s. The limit is slightly larger, since it is
/// compared with sums of rounded figures.
std::int64_t limit_of(double capacity) { return static_cast<std::int64_t>(capacity / kPerNanosecond * (1.0 + 1e-9)); }

}  // namespace

FlowNetwork::FlowNetwork(const std::vector<double>& capacities) : links_(capacities.size()) {
  for (std::size_t l = 0; l < capacities.size(); ++l) {
    ESPALIER_CHECK(capacities[l] >= 0.0 && capacities[l] <= kMostBytesPerSecond);
    links_[l].nominal = capacities[l] * kPerNanosecond;
    links_[l].capacity = links_[l].nominal;
    links_[l].limit = limit_of(links_[l].capacity);
  }
}

void FlowNetwork::change_capacity(std::int64_t at_ns, LinkId first, std::int64_t count, double factor) {
  ESPALIER_CHECK(at_ns >= now_);
  ESPALIER_CHECK(first >= 0 && count >= 0 && first + count <= links());
  ESPALIER_CHECK(factor >= 0.0 && factor <= kMostFactor);
  const CapacityChange change{at_ns, capacity_changes_made_++, first, count, factor};
  if (at_ns == now_)
    apply(change);
  else
    capacity_changes_.push(change);
}

void FlowNetwork::apply(const CapacityChange& change) {
  for (LinkId id = change.first; id < change.first + static_cast<LinkId>(change.count); ++id) {
    const std::int32_t bucket = link(id).bucket;
    if (bucket >= 0) {
      BucketState& state = buckets_[static_cast<std::size_t>(bucket)];
      state.factor = change.factor;
      set_capacity(id, capacity_of(state));
    } else {
      set_capacity(id, link(id).nominal * change.factor);
    }
  }
}

/// Sets the capacity from now on, in bytes/ns.
void FlowNetwork::set_capacity(LinkId id, double capacity) {
  LinkState& state = link(id);
  const bool before = state.contended();
  state.capacity = capacity;
  state.limit = limit_of(capacity);
  if (state.flows.empty()) return;
  touch(id);
  if (before || state.contended()) mark_changed(id);
}

void FlowNetwork::check(const Activity& activity) const {
  ESPALIER_CHECK(activity.fixed_ns >= 0 && activity.fixed_ns <= activity.duration_ns);
  for (const Flow& given : activity.flows) {
    ESPALIER_CHECK(given.bytes >= 0);
    for (const solve::FlowLink& use : given.uses) {
      ESPALIER_CHECK(use.link >= 0 && use.link < links());
      ESPALIER_CHECK(use.weight > 0.0 && std::isfinite(use.weight));
    }
  }
}

/// Returns a slot for the flow, which is not yet on its links.
std::int32_t FlowNetwork::add_flow(std::int32_t activity, const Flow& given, std::int64_t work) {
  if (free_flows_.empty()) {
    free_flows_.push_back(static_cast<std::int32_t>(flows_.size()));
    flows_.emplace_back();
  }
  const std::int32_t slot = free_flows_.back();
  free_flows_.pop_back();
  FlowState& state = flow(slot);
  state.activity = activity;
  state.bytes = given.bytes;
  state.work = work;
  state.cap = static_cast<double>(given.bytes) / static_cast<double>(work);
  state.uses.clear();
  for (const solve::FlowLink& use : given.uses) state.uses.push_back({use.link, 0, use.weight});
  return slot;
}

ActivityId FlowNetwork::start(std::int64_t at_ns, const Activity& given) {
  ESPALIER_CHECK(at_ns >= now_);
  check(given);
  if (free_activities_.empty()) {
    free_activities_.push_back(static_cast<std::int32_t>(activities_.size()));
    activities_.emplace_back();
  }
  const std::int32_t slot = free_activities_.back();
  free_activities_.pop_back();
  ActivityState& state = activity(slot);
  state.id = next_id_++;
  state.end = at_ns + given.duration_ns;
  state.begun = false;
  state.flows.clear();
  const std::int64_t work = given.duration_ns - given.fixed_ns;
  for (const Flow& one : given.flows) {
    if (one.bytes == 0 || one.uses.empty()) continue;
    if (work > 0)
      state.flows.push_back(add_flow(slot, one, work));
    else  // less than a nanosecond on the links
      for (const solve::FlowLink& use : one.uses) link(use.link).bytes += use.weight * static_cast<double>(one.bytes);
  }
  state.pending = static_cast<std::int32_t>(state.flows.size());
  ++active_;
  if (state.pending > 0 && at_ns + given.fixed_ns == now_)
    begin(slot);
  else
    events_.set(activity_handle(slot), state.pending > 0 ? at_ns + given.fixed_ns : state.end);
  return state.id;
}

/// Begins the flows of an activity after its fixed part.
void FlowNetwork::begin(std::int32_t slot) {
  ActivityState& state = activity(slot);
  state.begun = true;
  for (const std::int32_t one : state.flows) begin_flow(one);
}

void FlowNetwork::finish(std::int32_t slot, std::vector<FinishedActivity>& finished) {
  const ActivityState& state = activity(slot);
  ESPALIER_CHECK(now_ >= state.end);  // no activity is faster than alone
  finished.push_back({now_, state.id});
  free_activities_.push_back(slot);
  --active_;
}

/// Handles all events at now_.
void FlowNetwork::handle_events(std::vector<FinishedActivity>& finished) {
  const std::size_t before = finished.size();
  while (!capacity_changes_.empty() && capacity_changes_.top().at == now_) {
    apply(capacity_changes_.top());
    capacity_changes_.pop();
  }
  empty_buckets();
  while (!events_.empty() && events_.first_time() == now_) {
    const EventHeap::Handle handle = events_.first_handle();
    const std::int32_t slot = handle / 2;
    events_.erase(handle);
    if (handle == activity_handle(slot)) {
      if (activity(slot).pending > 0)
        begin(slot);
      else
        finish(slot, finished);
      continue;
    }
    const std::int32_t owner = flow(slot).activity;
    end_flow(slot);
    if (--activity(owner).pending == 0) finish(owner, finished);
  }
  std::sort(finished.begin() + static_cast<std::ptrdiff_t>(before), finished.end(),
            [](const FinishedActivity& a, const FinishedActivity& b) { return a.id < b.id; });
}

std::optional<std::int64_t> FlowNetwork::next_time() {
  std::optional<std::int64_t> next = next_empty_bucket();
  const auto earlier = [&next](std::int64_t time) { next = next ? std::min(*next, time) : time; };
  if (!capacity_changes_.empty()) earlier(capacity_changes_.top().at);
  if (!events_.empty()) earlier(events_.first_time());
  return next;
}

std::optional<std::int64_t> FlowNetwork::next_event() {
  settle();
  if (active_ == 0) return std::nullopt;
  return next_time();
}

void FlowNetwork::advance(std::int64_t to_ns, std::vector<FinishedActivity>& finished) {
  ESPALIER_CHECK(to_ns >= now_);
  settle();
  for (std::optional<std::int64_t> next = next_time(); next && *next <= to_ns; next = next_time()) {
    now_ = *next;
    handle_events(finished);
    settle();
  }
  now_ = to_ns;
}

LinkUtilisation FlowNetwork::utilisation(LinkId id) const {
  ESPALIER_CHECK(id >= 0 && id < links());
  const LinkState& state = links_[static_cast<std::size_t>(id)];
  LinkUtilisation found{state.bytes, state.busy, std::min(1.0, state.highest_share)};
  if (!state.flows.empty()) found.busy_ns += now_ - state.busy_since;
  for (const OnLink& entry : state.flows) {
    const FlowState& one = flows_[static_cast<std::size_t>(entry.flow)];
    const double left = std::max(0.0, one.left - static_cast<double>(now_ - one.since) * one.rate / one.cap);
    const double moved = static_cast<double>(one.bytes) * (1.0 - left / static_cast<double>(one.work));
    found.bytes += one.uses[static_cast<std::size_t>(entry.use)].weight * moved;
  }
  return found;
}

}  // namespace espalier::sim
