// SPDX-License-Identifier: Apache-2.0
// Lower bounds on a layer problem by Lagrange multipliers of its memory. Internal to the layer search.
//
// Every choice has peak ≥ Σ m + transient of the last layer: nothing is freed before it runs. So the last layer has a
// memory of its own, m + transient, and for every λ ≥ 0 (seconds a byte) a choice that fits costs at least
//     LB(λ) = Σ_l v_l(λ) − λ·slack,    v_l(λ) = min over items of  c + λ·(m − m_least(l)),    slack = capacity − Σ_l m_least(l)
// and, when layer l uses item o of layout a, at least
//     min( LB(λ) + c_o + λ·(m_o − m_least(l)) − v_l(λ) + (least transition into or out of a),
//          the same without a transition when all layers have items of layout a alone ).
// The best λ is the slope of the lower convex hulls of (m, c) where the greedy fill of the slack ends (the linear
// relaxation of the multiple-choice knapsack problem); slopes around it are kept, as parts of the problem have their
// best λ near it.
#pragma once

#include <cstdint>
#include <vector>

#include "solve/layer_chain.h"

namespace espalier::solve {

struct Multipliers {
  std::vector<double> lambda;              ///< rising; 0 is the first
  std::vector<std::int64_t> least_memory;  ///< [type] of a layer that is not the last
  std::int64_t least_last = 0;             ///< of the last layer, with its transient
  std::int64_t slack = 0;                  ///< negative: nothing fits
  double root = 0;                         ///< max LB(λ), less what rounding may have added; infinite: nothing fits
  double root_lambda = 0;
};
Multipliers multipliers(const Chain& chain);

/// For every item a value that no choice that fits and uses it is below, [type][item].
std::vector<std::vector<double>> item_bounds(const Chain& chain, const Multipliers& multipliers);
/// The same when only choices count that use every layout, whose transitions then cost at least `way`.
std::vector<std::vector<double>> item_bounds(const Chain& chain, const Multipliers& multipliers, double way);

inline double value(const Item& item, double lambda, std::int64_t least_memory) {
  return item.cost + lambda * static_cast<double>(item.memory - least_memory);
}

inline double last_value(const Item& item, double lambda, std::int64_t least_last) {
  return item.cost + lambda * static_cast<double>(item.memory + item.transient - least_last);
}

}  // namespace espalier::solve
