// SPDX-License-Identifier: Apache-2.0
// A layer problem with one cost, and lower bounds on it by Lagrange multipliers of the memory. Internal to the layer search.
//
// A run is a stretch of consecutive layers of one type. An item is an option with cost c and memory m = states + K·saved; its
// base = states + (K − 1)·saved. Every choice has peak ≥ Σ m + transient of the last layer ≥ Σ m + t, t = the least transient there. So for
// every λ ≥ 0 (seconds a byte) a choice that fits costs at least
//     LB(λ) = Σ_l v_l(λ) − λ·slack,    v_l(λ) = min over items of  c + λ·(m − m_least(l)),    slack = capacity − t − Σ_l m_least(l)
// and, when it uses item o of layout a, at least
//     min( LB(λ) + c_o + λ·(m_o − m_least) − v(λ) + (least transition into or out of a),    the same with items of layout a alone ).
// The best λ is the slope of the lower convex hulls of (m, c) where the greedy fill of the slack ends (the linear relaxation of the
// multiple-choice knapsack problem); slopes around it are kept, as parts of the problem have their best λ near it.
#pragma once

#include <cstdint>
#include <vector>

#include "search/layer_search.h"

namespace espalier::search::layers {

struct Item {
  double cost = 0;  ///< what is minimised, or the first of two criteria
  double tail = 0;  ///< second criterion of a frontier, otherwise 0
  std::int64_t memory = 0, saved = 0, transient = 0;
  std::int32_t layout = 0, option = 0;

  [[nodiscard]] std::int64_t base() const { return memory - saved; }
};

struct Run {
  std::int32_t type = 0, count = 0;
};

struct Chain {
  std::vector<Run> runs;
  std::vector<std::vector<Item>> items;         ///< [type] by rising (layout, option)
  std::vector<std::vector<double>> transition;  ///< [layout][layout], part of `cost`
  std::int64_t capacity = 0;
};

enum class Criteria : std::uint8_t { weighted, steady, steady_and_sync };

/// Items that another of the same layout equals or beats in cost, tail, base, memory and memory + transient are left out: putting the
/// other in their place raises neither cost nor peak. Items of infinite cost are left out.
Chain make_chain(const LayerProblem& problem, Criteria criteria, const LayerObjective& weights, std::int64_t capacity);

struct Multipliers {
  std::vector<double> lambda;              ///< rising; 0 is the first
  std::vector<std::int64_t> least_memory;  ///< [type]
  std::int64_t slack = 0;                  ///< negative: nothing fits
  double root = 0;                         ///< max LB(λ), less what rounding may have added; infinite: nothing fits
  double root_lambda = 0;
};
Multipliers multipliers(const Chain& chain);

/// For every item a value that no choice that fits and uses it is below, [type][item].
std::vector<std::vector<double>> item_bounds(const Chain& chain, const Multipliers& multipliers);

inline double value(const Item& item, double lambda, std::int64_t least_memory) {
  return item.cost + lambda * static_cast<double>(item.memory - least_memory);
}

/// Sums of doubles are trusted to this part of the largest of them.
inline constexpr double kRounding = 1e-14;

}  // namespace espalier::search::layers
