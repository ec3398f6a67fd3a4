// SPDX-License-Identifier: Apache-2.0
// Holds a layer problem with one cost, and removes superfluous parts of it. Internal to the layer search.
//
// A run is a stretch of consecutive layers of one type. An item is an option with cost c, memory m = states + K·saved
// and base = states + (K − 1)·saved. An item equals or beats another when it does so in cost, tail, base, memory and
// memory + transient. Put in the place of the other, with the same transitions, it raises neither cost nor peak.
#pragma once

#include <cstdint>
#include <vector>

#include "solve/layer_search.h"

namespace espalier::solve {

struct Item {
  double cost = 0;  ///< minimised, or the first of two criteria
  double tail = 0;  ///< second criterion of a frontier, otherwise 0
  std::int64_t memory = 0, saved = 0, transient = 0;
  std::int32_t layout = 0, option = 0;

  [[nodiscard]] std::int64_t base() const { return memory - saved; }
};

struct TypeRun {
  std::int32_t type = 0, count = 0;
};

struct Chain {
  std::vector<TypeRun> runs;
  std::vector<std::vector<Item>> items;  ///< [type] by rising (layout, option)
  std::size_t layouts = 0;
  std::vector<double> transition;  ///< [from·layouts + to], part of `cost`
  std::int64_t capacity = 0;

  [[nodiscard]] double way(std::int32_t from, std::int32_t to) const {
    return transition[static_cast<std::size_t>(from) * layouts + static_cast<std::size_t>(to)];
  }
};

enum class Criteria : std::uint8_t { weighted, steady, steady_and_sync };

/// Builds the chain without items that another of the same layout equals or beats, and without those of infinite
/// cost.
Chain make_chain(const LayerProblem& problem, Criteria criteria, const LayerObjective& weights, std::int64_t capacity);

/// Keeps only items with bounds[type][item] < limit, and the layouts that they have.
Chain below(const Chain& chain, const std::vector<std::vector<double>>& bounds, double limit);

/// Keeps only the given layouts, by rising index.
Chain within(const Chain& chain, const std::vector<std::int32_t>& layouts);

/// Removes beaten layouts. A layout is beaten if another has, for every type and item of it, one that equals or beats
/// the item. The other must also equal or beat it in all transitions. Replacing the layout everywhere then raises
/// nothing.
Chain without_beaten_layouts(const Chain& chain);

/// Returns whether staying in a layout costs nothing, and no detour through a third layout is shorter than the direct
/// transition.
bool is_metric(const Chain& chain);

/// Relative precision of sums of doubles: differences below this part of the largest of them are ignored.
inline constexpr double kRounding = 1e-14;

}  // namespace espalier::solve
