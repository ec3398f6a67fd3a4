// SPDX-License-Identifier: Apache-2.0
// A layer problem with one cost, and what may be left out of it. Internal to the layer search.
//
// A run is a stretch of consecutive layers of one type. An item is an option with cost c and memory m = states +
// K·saved; its base = states + (K − 1)·saved. An item equals or beats another when it does so in cost, tail, base,
// memory and memory +
// transient: put in the place of the other, with the same transitions, it raises neither cost nor peak.
#pragma once

#include <cstdint>
#include <vector>

#include "solve/layer_search.h"

namespace espalier::solve {

struct Item {
  double cost = 0;  ///< what is minimised, or the first of two criteria
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

/// Left out: items that another of the same layout equals or beats, and those of infinite cost.
Chain make_chain(const LayerProblem& problem, Criteria criteria, const LayerObjective& weights, std::int64_t capacity);

/// Only items with bounds[type][item] < limit, and the layouts that they have.
Chain below(const Chain& chain, const std::vector<std::vector<double>>& bounds, double limit);

/// Only the layouts given, by rising index.
Chain within(const Chain& chain, const std::vector<std::int32_t>& layouts);

/// A layout goes when another has, for every type and item of it, one that equals or beats the item, and equals or
/// beats it in all transitions: putting the other in its place everywhere raises nothing.
Chain without_beaten_layouts(const Chain& chain);

/// Staying costs nothing, and no way from one layout to another by a third is shorter than the direct one.
bool is_metric(const Chain& chain);

/// Sums of doubles are trusted to this part of the largest of them.
inline constexpr double kRounding = 1e-14;

}  // namespace espalier::solve
