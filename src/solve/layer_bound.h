// SPDX-License-Identifier: Apache-2.0
// Computes lower bounds on a layer problem by Lagrange multipliers of its memory. Internal to the layer search.
//
// Every choice has peak ≥ Σ m + transient of the last layer, because nothing is freed before it runs. So the memory
// of the last layer is counted as m + transient. For every λ ≥ 0 (seconds per byte), a choice that fits costs at
// least
//     LB(λ) = Σ_l v_l(λ) − λ·slack,    slack = capacity − Σ_l m_least(l),
//     v_l(λ) = min over items of  c + λ·(m − m_least(l)).
// If layer l uses item o of layout a, the choice costs at least
//     LB(λ) + c_o + λ·(m_o − m_least(l)) − v_l(λ) + (least transition into or out of a).
// Alternatively all layers have items of layout a alone. This gives the same expression with v_l over these items and
// without the transition; the smaller of the two is the bound.
// The best λ is the slope of the lower convex hulls of (m, c) where the greedy fill of the slack ends. This is the
// linear relaxation of the multiple-choice knapsack problem. Slopes around it are kept, as parts of the problem have
// their best λ near it.
#pragma once

#include <cstdint>
#include <vector>

#include "solve/layer_chain.h"

namespace espalier::solve {

struct Multipliers {
  std::vector<double> lambda;              ///< rising; 0 is the first
  std::vector<std::int64_t> least_memory;  ///< [type], for layers other than the last
  std::int64_t least_last = 0;             ///< least memory of the last layer, with its transient
  std::int64_t slack = 0;                  ///< negative: nothing fits
  double root = 0;                         ///< max LB(λ), less a margin for rounding; infinity: nothing fits
  double root_lambda = 0;
};
Multipliers multipliers(const Chain& chain);

/// Returns for every item a lower bound of the choices that fit and use it, [type][item].
std::vector<std::vector<double>> item_bounds(const Chain& chain, const Multipliers& multipliers);
/// Returns the same bounds for choices that use every layout; their transitions cost at least `way`.
std::vector<std::vector<double>> item_bounds(const Chain& chain, const Multipliers& multipliers, double way);

inline double value(const Item& item, double lambda, std::int64_t least_memory) {
  return item.cost + lambda * static_cast<double>(item.memory - least_memory);
}

inline double last_value(const Item& item, double lambda, std::int64_t least_last) {
  return item.cost + lambda * static_cast<double>(item.memory + item.transient - least_last);
}

}  // namespace espalier::solve
