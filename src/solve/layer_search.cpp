// SPDX-License-Identifier: Apache-2.0
#include "solve/layer_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "solve/label_steps.h"
#include "solve/layer_bound.h"
#include "solve/layer_label_search.h"
#include "solve/layer_sets.h"

namespace espalier::solve {
namespace {

/// Returns a cost that no allowed choice exceeds.
double worst_cost(const Chain& chain) {
  double worst = 0, way = 0;
  for (const double t : chain.transition)
    if (!std::isinf(t)) way = std::max(way, t);
  for (const TypeRun& run : chain.runs) {
    double item = 0;
    for (const Item& i : chain.items[static_cast<std::size_t>(run.type)]) item = std::max(item, i.cost);
    worst += run.count * (item + way);
  }
  return worst > 0 ? worst * (1 + 1e-6) : 1;
}

/// Holds a set of layouts, and the part of the chain for choices within it that pay its way.
struct SetChain {
  double bound = 0, way = 0;
  Chain chain;
  Multipliers multipliers;
};

std::size_t items_of(const Chain& chain) {
  std::size_t items = 0;
  for (const auto& of_type : chain.items) items += of_type.size();
  return items;
}

/// Returns nullopt when no such choice is below the limit. It also does so when fewer layouts suffice, which have a
/// shorter way and so a set of their own.
std::optional<SetChain> set_chain(const Chain& chain, const LayoutSet& set, double limit) {
  Chain left = without_beaten_layouts(within(chain, set.layouts));
  for (;;) {
    if (left.layouts < set.layouts.size() && set.way > 0 && shortest_way(left) < set.way * (1 - 1e-9)) return std::nullopt;
    Multipliers m = multipliers(left);
    if (m.root + set.way >= limit) return std::nullopt;
    Chain fewer = below(left, item_bounds(left, m, set.way), limit);
    const bool settled = items_of(fewer) == items_of(left);
    if (settled) return SetChain{m.root + set.way, set.way, std::move(left), std::move(m)};
    left = std::move(fewer);
  }
}

struct LayerTarget {
  const LayerProblem& problem;
  const LayerObjective& objective;
};

/// Replaces `best` by the best choice of the scope and lowers the limit.
void look(const LayerTarget& target, const Chain& chain, const Multipliers& multipliers, const Scope& scope, double& limit,
          std::vector<std::int32_t>& best) {
  if (std::isinf(multipliers.root)) return;
  std::vector<std::int32_t> options = cheapest(chain, multipliers, scope);
  if (options.empty()) return;
  const LayerSolution found = solution_of(target.problem, options);
  limit = target.objective.steady_weight * found.steady + target.objective.sync_weight * found.sync;
  best = std::move(options);
}

/// Returns the options of the best choice below the limit; empty when there is none. `root` is a lower bound of all
/// choices.
std::vector<std::int32_t> best_below(const LayerTarget& target, const Chain& chain, double root, double limit) {
  std::vector<std::int32_t> best;
  const bool metric = is_metric(chain);
  const auto sets = metric ? layout_sets(chain, limit - root) : std::nullopt;
  if (!sets) {
    look(target, chain, multipliers(chain), {limit, 0, metric}, limit, best);
    return best;
  }
  std::vector<SetChain> open;
  for (const LayoutSet& set : *sets)
    if (auto candidate = set_chain(chain, set, limit)) open.push_back(std::move(*candidate));
  std::stable_sort(open.begin(), open.end(), [](const SetChain& a, const SetChain& b) { return a.bound < b.bound; });
  const double enough = root * (1 + target.objective.tolerance);
  for (const SetChain& s : open) {
    if (s.bound < limit) look(target, s.chain, s.multipliers, {limit, s.way, true}, limit, best);
    if (!best.empty() && limit <= enough && target.objective.tolerance > 0) break;
  }
  return best;
}

}  // namespace

std::optional<LayerSolution> best_layers(const LayerProblem& problem, const LayerObjective& objective, std::int64_t capacity,
                                         double upper_bound) {
  if (problem.layers.empty()) return LayerSolution{};
  const Chain chain = make_chain(problem, Criteria::weighted, objective, capacity);
  const Multipliers m = multipliers(chain);
  if (std::isinf(m.root) || m.root >= upper_bound) return std::nullopt;
  const auto bounds = item_bounds(chain, m);
  const double last = std::min(upper_bound, worst_cost(chain));
  // The limit rises from just above the lower bound. A search whose limit is below the optimum is short, as few
  // labels can end there. The first search that finds a choice has found the best.
  double step =
      std::max({m.root / (128.0 * static_cast<double>(problem.layers.size())), last * 1e-9, m.root * objective.tolerance});
  for (;; step *= 2) {
    const double limit = std::min(m.root + step, last);
    std::vector<std::int32_t> options =
        best_below({problem, objective}, without_beaten_layouts(below(chain, bounds, limit)), m.root, limit);
    if (!options.empty()) return solution_of(problem, std::move(options));
    if (limit >= last) return std::nullopt;
  }
}

double layers_lower_bound(const LayerProblem& problem, const LayerObjective& objective, std::int64_t capacity) {
  return multipliers(make_chain(problem, Criteria::weighted, objective, capacity)).root;
}

}  // namespace espalier::solve
