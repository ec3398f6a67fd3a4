// SPDX-License-Identifier: Apache-2.0
#include "solve/shadow_price.h"

#include "solve/layer_bound.h"
#include "solve/layer_chain.h"

namespace espalier::solve {

double shadow_price(const LayerProblem& problem, const LayerObjective& objective, std::int64_t capacity) {
  return multipliers(make_chain(problem, Criteria::weighted, objective, capacity)).root_lambda;
}

}  // namespace espalier::solve
