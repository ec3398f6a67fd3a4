// SPDX-License-Identifier: Apache-2.0
// Finds max-min shares after an event. Flows on changed links are solved with all others fixed. Flows that this
// leaves unheld join them, until every flow is held (flow_network.h).
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/invariant.h"
#include "sim/flow_network.h"

namespace espalier::sim {
namespace {

/// Defines the relative difference of rates and loads that counts as rounding.
constexpr double kEqualLoads = 1e-11;
/// Rates that differ by less keep their event.
constexpr double kUnchanged = 1e-13;
/// After this many rounds all flows joined by contended links are solved together. For long chains this is cheaper
/// than adding them one by one.
constexpr int kRoundsOneByOne = 6;

}  // namespace

/// Adds all flows on the link.
void FlowNetwork::collect(LinkId id) {
  for (const OnLink& entry : link(id).flows) {
    FlowState& state = flow(entry.flow);
    if (state.solved == counters_.solves) continue;
    state.solved = counters_.solves;
    solving_.push_back(entry.flow);
  }
}

void FlowNetwork::collect_component() {
  for (std::size_t i = 0; i < solving_.size(); ++i)
    for (std::size_t u = 0; u < flow(solving_[i]).uses.size(); ++u) {
      const LinkId id = flow(solving_[i]).uses[u].link;
      if (link(id).contended()) collect(id);
    }
}

bool FlowNetwork::MetLink::full() const { return load.sum >= capacity * (1.0 - kEqualLoads); }

/// Finds the contended links of the flows being solved, and the capacity that other flows leave on them.
void FlowNetwork::meet_links() {
  ++counters_.rounds;
  met_.clear();
  met_uses_.clear();
  first_met_use_.clear();
  for (const std::int32_t slot : solving_) {
    first_met_use_.push_back(met_uses_.size());
    for (const Use& use : flow(slot).uses) {
      LinkState& on = link(use.link);
      if (!on.contended()) continue;
      if (on.round != counters_.rounds) {
        on.round = counters_.rounds;
        on.met = static_cast<std::int32_t>(met_.size());
        met_.push_back({use.link, 0, 0, on.capacity, on.capacity, std::numeric_limits<double>::infinity(), {}, {}});
      }
      ++met_[static_cast<std::size_t>(on.met)].users;
      met_uses_.push_back({on.met, use.weight});
    }
  }
  first_met_use_.push_back(met_uses_.size());
  for (MetLink& met : met_) {
    const LinkState& on = link(met.link);
    if (static_cast<std::size_t>(met.users) == on.flows.size()) continue;
    for (const OnLink& entry : on.flows) {
      const FlowState& other = flow(entry.flow);
      if (other.solved == counters_.solves) continue;
      met.others.sum += other.uses[static_cast<std::size_t>(entry.use)].weight * other.rate;
      met.others.fastest = std::max(met.others.fastest, other.rate);
      met.slowest_other = std::min(met.slowest_other, other.rate);
    }
    met.left = std::max(0.0, met.capacity - met.others.sum);
  }
}

/// Finds the rates of the flows being solved. A link that only one of them uses is a cap of that flow.
void FlowNetwork::solve_met() {
  problem_.clear();
  for (MetLink& met : met_)
    if (met.users > 1) met.number = problem_.add_link(met.left);
  for (std::size_t i = 0; i < solving_.size(); ++i) {
    const std::size_t begin = first_met_use_[i], end = first_met_use_[i + 1];
    double cap = flow(solving_[i]).cap;
    for (std::size_t u = begin; u < end; ++u) {
      const MetLink& met = met_[static_cast<std::size_t>(met_uses_[u].met)];
      if (met.users == 1) cap = std::min(cap, met.left / met_uses_[u].weight);
    }
    problem_.add_flow(cap);
    for (std::size_t u = begin; u < end; ++u) {
      const MetLink& met = met_[static_cast<std::size_t>(met_uses_[u].met)];
      if (met.users > 1) problem_.add_use(met.number, met_uses_[u].weight);
    }
  }
  counters_.flows_solved += static_cast<std::int64_t>(solving_.size());
  const std::vector<double>& rates = solver_.solve(problem_);
  for (MetLink& met : met_) met.load = met.others;
  for (std::size_t i = 0; i < solving_.size(); ++i) {
    flow(solving_[i]).next = rates[i];
    for (std::size_t u = first_met_use_[i]; u < first_met_use_[i + 1]; ++u) {
      Load& load = met_[static_cast<std::size_t>(met_uses_[u].met)].load;
      load.sum += met_uses_[u].weight * rates[i];
      load.fastest = std::max(load.fastest, rates[i]);
    }
  }
}

/// Returns the load of a link that no flow being solved uses.
FlowNetwork::Load FlowNetwork::load_on(const LinkState& on) const {
  Load load;
  for (const OnLink& entry : on.flows) {
    const FlowState& state = flows_[static_cast<std::size_t>(entry.flow)];
    load.sum += state.uses[static_cast<std::size_t>(entry.use)].weight * state.rate;
    load.fastest = std::max(load.fastest, state.rate);
  }
  return load;
}

/// Returns whether the link is full and no flow on it is faster.
bool FlowNetwork::holds(LinkId id, double rate) const {
  const LinkState& on = links_[static_cast<std::size_t>(id)];
  const Load load = on.round == counters_.rounds ? met_[static_cast<std::size_t>(on.met)].load : load_on(on);
  return load.sum >= on.capacity * (1.0 - kEqualLoads) && rate >= load.fastest * (1.0 - kEqualLoads);
}

/// Returns whether the flow satisfies the condition of max-min fairness.
bool FlowNetwork::held(FlowState& state, double rate) {
  if (rate >= state.cap * (1.0 - kEqualLoads)) return true;
  if (state.bottleneck != kNoLink && holds(state.bottleneck, rate)) return true;
  for (const Use& use : state.uses) {
    if (!link(use.link).contended() || !holds(use.link, rate)) continue;
    state.bottleneck = use.link;
    return true;
  }
  return false;
}

/// Adds the flows that are faster on a full link of this flow and must give way.
void FlowNetwork::collect_faster(std::size_t place) {
  const double rate = flow(solving_[place]).next;
  for (std::size_t u = first_met_use_[place]; u < first_met_use_[place + 1]; ++u) {
    const MetLink& met = met_[static_cast<std::size_t>(met_uses_[u].met)];
    if (!met.full()) continue;
    for (const OnLink& entry : link(met.link).flows) {
      const FlowState& other = flow(entry.flow);
      if (other.solved != counters_.solves && other.rate > rate * (1.0 + kEqualLoads)) joining_.push_back(entry.flow);
    }
  }
}

/// Adds the flows without which the new rates are not max-min fair. Returns false if there are none.
bool FlowNetwork::collect_unheld() {
  joining_.clear();
  for (std::size_t i = 0; i < solving_.size(); ++i)
    if (!held(flow(solving_[i]), flow(solving_[i]).next)) collect_faster(i);
  for (const MetLink& met : met_) {
    const double least = met.load.fastest * (1.0 - kEqualLoads);  // a flow this fast on a full link is held there
    if (static_cast<std::size_t>(met.users) == link(met.link).flows.size()) continue;
    if (met.full() && met.slowest_other >= least) continue;
    for (const OnLink& entry : link(met.link).flows) {
      FlowState& other = flow(entry.flow);
      if (other.solved == counters_.solves || (met.full() && other.rate >= least)) continue;
      if (!held(other, other.rate)) joining_.push_back(entry.flow);
    }
  }
  const std::size_t before = solving_.size();
  for (const std::int32_t slot : joining_) {
    if (flow(slot).solved == counters_.solves) continue;
    flow(slot).solved = counters_.solves;
    solving_.push_back(slot);
  }
  return solving_.size() > before;
}

/// Finds new rates for all flows that need one after the changes so far.
void FlowNetwork::solve_changed() {
  ++counters_.solves;
  solving_.clear();
  for (const LinkId id : changed_) {
    link(id).changed = false;
    collect(id);
  }
  changed_.clear();
  if (solving_.empty()) return;
  int round = 0;
  do {
    if (round++ == kRoundsOneByOne) collect_component();
    meet_links();
    solve_met();
  } while (collect_unheld());
  for (const std::int32_t slot : solving_) {
    const FlowState& state = flow(slot);
    ESPALIER_CHECK(state.next >= 0.0 && state.next <= state.cap);
    const bool moved = std::abs(state.next - state.rate) > kUnchanged * state.rate;
    if (moved || state.next == state.cap) set_rate(slot, state.next);
  }
}

}  // namespace espalier::sim
