// SPDX-License-Identifier: Apache-2.0
// Handles flows of the flow-level network: puts them on and off their links, counts moved bytes, and finds their
// ends.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/invariant.h"
#include "sim/flow_network.h"

namespace espalier::sim {
namespace {

/// Defines the fraction of a nanosecond below which a remainder counts as rounding.
constexpr double kRounding = 1e-6;
/// Limits the bytes/s of one flow: beyond any link, and small enough that a thousand of them can be added up.
constexpr double kMostDemand = 2e15;

/// Returns the bytes/s that the flow's cap demands of a link. The rounding of its duration counts in the flow's
/// favour.
std::int64_t demand_of(double weight, std::int64_t bytes, std::int64_t work) {
  const double demand = weight * static_cast<double>(bytes) / static_cast<double>(work + 1) * 1e9;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(demand, kMostDemand)));
}

}  // namespace

void FlowNetwork::mark_changed(LinkId id) {
  if (link(id).changed) return;
  link(id).changed = true;
  changed_.push_back(id);
}

void FlowNetwork::touch(LinkId id) {
  if (link(id).touched) return;
  link(id).touched = true;
  touched_.push_back(id);
}

/// Puts the flow on its links. On contended ones it waits for settle() to find its rate; otherwise it runs at its
/// cap.
void FlowNetwork::begin_flow(std::int32_t slot) {
  ++counters_.flow_events;
  FlowState& state = flow(slot);
  state.rate = 0.0;
  state.left = static_cast<double>(state.work);
  state.since = now_;
  state.bottleneck = kNoLink;
  bool contended = false;
  for (std::size_t u = 0; u < state.uses.size(); ++u) {
    Use& use = state.uses[u];
    LinkState& on = link(use.link);
    if (on.flows.empty()) on.busy_since = now_;
    use.place = static_cast<std::int32_t>(on.flows.size());
    on.flows.push_back({slot, static_cast<std::int32_t>(u)});
    const std::int64_t demand = demand_of(use.weight, state.bytes, state.work);
    ESPALIER_CHECK(on.demand <= std::numeric_limits<std::int64_t>::max() - demand);
    on.demand += demand;
    if (!on.contended()) continue;
    contended = true;
    mark_changed(use.link);
  }
  if (!contended) set_rate(slot, state.cap);
}

/// Takes the flow off its links. Flows that shared contended ones with it get a new rate in settle().
void FlowNetwork::end_flow(std::int32_t slot) {
  ++counters_.flow_events;
  set_rate(slot, 0.0);
  FlowState& state = flow(slot);
  for (const Use& use : state.uses) {
    LinkState& on = link(use.link);
    if (on.contended()) mark_changed(use.link);
    on.demand -= demand_of(use.weight, state.bytes, state.work);
    on.bytes += use.weight * static_cast<double>(state.bytes);
    const OnLink last = on.flows.back();
    on.flows[static_cast<std::size_t>(use.place)] = last;
    flow(last.flow).uses[static_cast<std::size_t>(last.use)].place = use.place;
    on.flows.pop_back();
    if (!on.flows.empty()) continue;
    ESPALIER_CHECK(on.demand == 0);
    on.used = 0.0;
    on.busy += now_ - on.busy_since;
  }
  free_flows_.push_back(slot);
}

/// Sets the rate from now on. Bytes moved until now count at the previous rate.
void FlowNetwork::set_rate(std::int32_t slot, double rate) {
  FlowState& state = flow(slot);
  if (rate == state.rate) return;
  const auto passed = static_cast<double>(now_ - state.since);
  state.left = std::max(0.0, state.left - (state.rate == state.cap ? passed : passed * state.rate / state.cap));
  state.since = now_;
  for (const Use& use : state.uses) {
    link(use.link).used += use.weight * (rate - state.rate);
    touch(use.link);
  }
  state.rate = rate;
  schedule_end(slot);
}

void FlowNetwork::schedule_end(std::int32_t slot) {
  const FlowState& state = flow(slot);
  const double takes = state.rate == state.cap ? state.left : state.left * state.cap / state.rate;
  if (state.rate > 0.0 && takes < kForever - static_cast<double>(now_))
    events_.set(flow_handle(slot), now_ + static_cast<std::int64_t>(std::ceil(takes - kRounding)));
  else
    events_.erase(flow_handle(slot));
}

/// Finds the rates for this moment, after all events that happen at it.
void FlowNetwork::settle() {
  do {
    if (!changed_.empty()) solve_changed();
  } while (settle_buckets());
  for (const LinkId id : touched_) {
    LinkState& state = link(id);
    state.touched = false;
    if (state.capacity > 0.0) state.highest_share = std::max(state.highest_share, state.used / state.capacity);
  }
  touched_.clear();
}

}  // namespace espalier::sim
