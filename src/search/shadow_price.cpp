// SPDX-License-Identifier: Apache-2.0
#include "search/shadow_price.h"

#include "search/layer_bound.h"
#include "search/layer_chain.h"

namespace espalier::search {

double shadow_price(const LayerProblem& problem, const LayerObjective& objective, std::int64_t capacity) {
  return layers::multipliers(layers::make_chain(problem, layers::Criteria::weighted, objective, capacity)).root_lambda;
}

}  // namespace espalier::search
