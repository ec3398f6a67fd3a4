// SPDX-License-Identifier: Apache-2.0
#include "search/expansion.h"

#include <algorithm>

#include "base/invariant.h"

namespace espalier::search {

/// Visits every schedule choice of a layer choice with its bound in nanoseconds. The bound is known, or computed
/// unless a floor that was carried over suffices.
template <class Visit>
void Expander::each_schedule(const KnownBounds::LayerChoice& node, Workspace& w, Expansion& e, const Visit& visit) const {
  const Configuration& c = node.choice;
  if (const KnownBounds::Node* known = frame_.options.known != nullptr ? frame_.options.known->find(c) : nullptr) {
    for (const auto& [b, ns] : known->schedules) visit(b, ns);
    return;
  }
  const std::vector<Space::ScheduleChoice>& choices = frame_.space.schedules(c);
  const std::vector<std::int64_t>* carried = carried_floors(node);
  ESPALIER_CHECK(carried == nullptr || carried->size() == choices.size());
  price_layers(frame_.book, c, w);
  Configuration b = c;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    choices[i].take(b.schedule);
    const std::int64_t floor = carried != nullptr ? frame_.options.carried->floor_ns(b, (*carried)[i]) : 0;
    if (frame_.out_of_reach(floor)) {
      visit(b, floor);
      continue;
    }
    ++e.bounded;
    visit(b, std::max(floor, schedule_group_bound_ns(frame_.book, b, w)));
  }
}

/// Returns the floors of an earlier search below a layer choice, unchanged; null if there are none.
const std::vector<std::int64_t>* Expander::carried_floors(const KnownBounds::LayerChoice& node) const {
  if (frame_.options.carried == nullptr || node.carried < 0) return nullptr;
  const auto& floors = frame_.options.carried->record->layers[static_cast<std::size_t>(node.carried)].schedule_floors_ns;
  return floors.empty() ? nullptr : &floors;
}

/// Visits every ZeRO stage and shard group below a schedule choice, the widest groups first, with the possible
/// overlaps.
template <class Visit>
void Expander::each_shard(const Configuration& b, const Visit& visit) const {
  Configuration s = b;
  const std::vector<Space::ShardChoice>& choices = frame_.space.shards(b);
  for (auto choice = choices.rbegin(); choice != choices.rend(); ++choice) {
    s.strategy.zero = choice->zero;
    s.strategy.shard = choice->shard;
    visit(s, choice->overlaps);
  }
}

Expansion Expander::schedules(const KnownBounds::LayerChoice& node, Workspace& w) const {
  Expansion e;
  if (frame_.beaten(Pruning::layer_bound, node.bound_ns)) {
    e.removed.count(Pruning::layer_bound, node.leaves);
    return e;
  }
  double kept = 0;
  each_schedule(node, w, e, [&](const Configuration& b, std::int64_t ns) {
    e.bounds.push_back(ns);
    const std::int64_t bound = frame_.rank(b, ns);
    if (frame_.beaten(Pruning::schedule_bound, bound)) return;
    e.leaves.push_back({b, bound, static_cast<std::int64_t>(e.bounds.size()) - 1});
    kept += leaves_below(b);
  });
  e.expanded = true;
  e.removed.count(Pruning::schedule_bound, node.leaves - kept);
  return e;
}

Expansion Expander::configurations(const Leaf& node, Workspace& w) const {
  Expansion e;
  const Configuration& b = node.configuration;
  if (frame_.beaten(Pruning::schedule_bound, node.bound_ns)) {
    e.removed.count(Pruning::schedule_bound, leaves_below(b));
    e.floor_ns = frame_.options.preference ? 0 : node.bound_ns;
    return e;
  }
  const MemoryTable& table = w.tables.of(frame_.book, frame_.space, b, w);
  const bool bounded = frame_.out.pruning.enabled(Pruning::memory);
  const std::vector<char> best_case = bounded ? table.best_case : std::vector<char>(table.choices.size(), 1);
  if (std::find(best_case.begin(), best_case.end(), 1) == best_case.end()) {
    e.removed.count(Pruning::memory, leaves_below(b));
    return e;
  }
  price_layers(frame_.book, b, w);
  const auto bound = [&](const Configuration& c) { return schedule_group_bound_ns(frame_.book, c, w); };
  if (frame_.out.pruning.enabled(Pruning::schedule_bound) && all_slower(b, table, best_case, bound, e)) {
    e.removed.count(Pruning::schedule_bound, leaves_below(b));
    return e;
  }
  std::vector<std::int32_t> slower;
  each_shard(
      b, [&](const Configuration& s, const std::vector<Overlap>& overlaps) { expand_shard(s, overlaps, table, w, slower, e); });
  return e;
}

/// Returns which recomputation choices may fit under the sharding of `s`; without the rule, all of them.
std::vector<char> Expander::fitting_choices(const MemoryTable& t, const Strategy& s, const Workspace& w) const {
  if (!frame_.out.pruning.enabled(Pruning::memory)) return std::vector<char>(t.choices.size(), 1);
  return fitting(frame_.book, t, s, w);
}

/// Returns whether everything below a node is slower than the incumbent. It bounds the node with each recomputation
/// that may be the cheapest: none where it fits, else selective or the fewest full layers.
template <class Bound>
bool Expander::all_slower(Configuration c, const MemoryTable& t, const std::vector<char>& fits, const Bound& bound,
                          Expansion& e) const {
  if (frame_.best_rank == INT64_MAX) return false;
  bool full_seen = false;
  std::int64_t least = INT64_MAX;
  for (std::size_t i = 0; i < t.choices.size(); ++i) {
    const bool full = t.choices[i].kind == RecomputeKind::full;
    if (!fits[i] || (full && full_seen)) continue;
    c.strategy.recompute = t.choices[i];
    ++e.bounded;
    const std::int64_t ns = bound(c);
    if (!frame_.exceeds(frame_.rank(c, ns))) return false;
    least = std::min(least, ns);
    full_seen = full_seen || full;
    if (t.choices[i].kind == RecomputeKind::none) break;
  }
  e.floor_ns = std::min(e.floor_ns, least);
  return true;
}

/// Returns whether a wider shard group rules out this one under ZeRO 1. A group whose size divides that of a wider
/// one updates more elements and holds more. Everything else in its bound is equal. So if the wider one is `slower`
/// than the incumbent, so is this one.
bool Expander::narrower(const Strategy& s, const std::vector<std::int32_t>& slower) const {
  if (s.zero != ZeroStage::optimizer || frame_.options.preference) return false;
  return std::any_of(slower.begin(), slower.end(), [&](std::int32_t wider) { return wider % s.shard == 0; });
}

void Expander::expand_shard(const Configuration& s, const std::vector<Overlap>& overlaps, const MemoryTable& t, Workspace& w,
                            std::vector<std::int32_t>& slower, Expansion& e) const {
  const std::vector<char> fits = fitting_choices(t, s.strategy, w);
  const auto feasible = static_cast<double>(std::count(fits.begin(), fits.end(), 1));
  const auto each = static_cast<double>(overlaps.size());
  e.removed.count(Pruning::memory, each * (static_cast<double>(fits.size()) - feasible));
  if (feasible == 0) return;
  const auto bound = [&](const Configuration& c) { return shard_group_bound_ns(frame_.book, c, w); };
  const bool bounded = frame_.out.pruning.enabled(Pruning::shard_bound);
  if (bounded && (narrower(s.strategy, slower) || all_slower(s, t, fits, bound, e))) {
    if (s.strategy.zero == ZeroStage::optimizer) slower.push_back(s.strategy.shard);
    e.removed.count(Pruning::shard_bound, each * feasible);
    return;
  }
  Configuration o = s;
  for (const Overlap& overlap : overlaps) {
    take_overlap(overlap, o.strategy);
    expand_overlap(o, t, fits, w, e);
  }
}

/// Expands the recomputation ladder of one choice of all other dimensions.
void Expander::expand_overlap(const Configuration& o, const MemoryTable& t, const std::vector<char>& fits, Workspace& w,
                              Expansion& e) const {
  // Recomputation shrinks the data offloaded to the host, so more of it may be faster.
  const bool ladder = frame_.out.pruning.enabled(Pruning::recompute_ladder) && !offloads_activations(o.strategy.offload);
  bool ladder_broken = false, nothing_cheaper = false;
  for (std::size_t i = 0; i < t.choices.size(); ++i) {
    if (!fits[i]) continue;
    const RecomputeKind kind = t.choices[i].kind;
    if ((ladder_broken && kind == RecomputeKind::full) || nothing_cheaper) {
      e.removed.count(Pruning::recompute_ladder, 1);
      continue;
    }
    Leaf leaf{o, 0};
    leaf.configuration.strategy.recompute = t.choices[i];
    const std::int64_t ns = configuration_bound_ns(frame_.book, leaf.configuration, w);
    e.floor_ns = std::min(e.floor_ns, ns);
    leaf.bound_ns = frame_.rank(leaf.configuration, ns);
    ++e.bounded;
    if (frame_.exceeds(leaf.bound_ns)) {
      if (kind == RecomputeKind::full) ladder_broken = ladder;
      if (kind == RecomputeKind::none) nothing_cheaper = ladder;
      if (frame_.out.pruning.enabled(Pruning::bound)) {
        e.removed.count(Pruning::bound, 1);
        continue;
      }
    }
    e.leaves.push_back(leaf);
  }
}

std::vector<Leaf> Expander::likely(const Configuration& b, Workspace& w) const {
  std::vector<Leaf> out;
  const MemoryTable& table = w.tables.of(frame_.book, frame_.space, b, w);
  price_layers(frame_.book, b, w);
  each_shard(b, [&](const Configuration& s, const std::vector<Overlap>& overlaps) {
    if (s.strategy.zero == ZeroStage::gradients || (!s.strategy.shards_optimizer() && s.strategy.data_ranks() > 1)) return;
    if (s.strategy.shards_optimizer() && s.strategy.shard != s.strategy.data_ranks()) return;
    if (overlaps.empty()) return;
    const std::vector<char> fits = fitting_choices(table, s.strategy, w);
    const auto first = std::find(fits.begin(), fits.end(), 1);
    if (first == fits.end()) return;
    Leaf leaf{s, 0};
    take_overlap(overlaps.back(), leaf.configuration.strategy);  // the last one has every possible flag
    leaf.configuration.strategy.recompute = table.choices[static_cast<std::size_t>(first - fits.begin())];
    leaf.bound_ns = frame_.rank(leaf.configuration, configuration_bound_ns(frame_.book, leaf.configuration, w));
    out.push_back(std::move(leaf));
  });
  return out;
}

}  // namespace espalier::search
