// SPDX-License-Identifier: Apache-2.0
#include "search/layer_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/check.h"
#include "search/layer_bound.h"
#include "search/layer_completion.h"
#include "search/layer_labels.h"
#include "search/layer_steps.h"

namespace espalier::search {
namespace layers {
namespace {

/// Labels of one chain from its last layer to its first, those that can end below a limit. A position within a run is
/// (blocks placed, free layers chosen).
class LabelSearch {
 public:
  LabelSearch(const Steps& steps, const Completion& completion) : steps_(steps), completion_(completion) {}

  /// The option of every layer; empty when no choice is below the limit.
  std::vector<std::int32_t> search() {
    std::vector<Label> open = {Label{0, 0, 0, 0, -1, -1, 0, 0}};
    for (std::size_t run = completion_.runs().size(); run-- > 0 && !open.empty();) open = pass(run, std::move(open));
    if (open.empty()) return {};
    const auto better = [](const Label& a, const Label& b) {
      return std::tuple(a.cost, a.memory, a.layout) < std::tuple(b.cost, b.memory, b.layout);
    };
    return options_of(*std::min_element(open.begin(), open.end(), better), kept_);
  }

 private:
  /// Labels with the run placed, from labels of what follows it.
  std::vector<Label> pass(std::size_t run, std::vector<Label> open) {
    const RunPlan& plan = completion_.runs()[run];
    const auto& items = steps_.of_type[static_cast<std::size_t>(plan.type)];
    const std::size_t positions = static_cast<std::size_t>(plan.free) + 1, all = std::size_t{1} << plan.blocks.size();
    std::vector<std::vector<Label>> at(all * positions);
    std::vector<Rest> rests(all * positions);
    const auto rest_at = [&](std::size_t placed, std::size_t chosen) -> const Rest& {
      Rest& rest = rests[placed * positions + chosen];
      if (rest.any.empty())
        rest = completion_.rest(run, static_cast<std::int32_t>(positions - 1 - chosen), static_cast<std::uint32_t>(placed));
      return rest;
    };
    at[0] = std::move(open);
    for (std::size_t placed = 0; placed < all; ++placed) {
      for (std::size_t chosen = 0; chosen < positions; ++chosen) {
        std::vector<Label> here = std::move(at[placed * positions + chosen]);
        if (placed + 1 == all && chosen + 1 == positions) return drop_superfluous(here, steps_.distance, steps_.layouts), here;
        if (here.empty()) continue;
        drop_superfluous(here, steps_.distance, steps_.layouts);
        const std::size_t first = kept_.size();
        kept_.insert(kept_.end(), here.begin(), here.end());
        if (chosen + 1 < positions) {
          const Rest& rest = rest_at(placed, chosen + 1);
          for (const Step& step : items) extend(here, first, step, 1, rest, at[placed * positions + chosen + 1]);
        }
        for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
          const std::size_t next = placed | std::size_t{1} << b;
          if (next == placed) continue;
          const Step& step = items[static_cast<std::size_t>(plan.blocks[b].item)];
          extend(here, first, step, plan.blocks[b].copies, rest_at(next, chosen), at[next * positions + chosen]);
        }
      }
    }
    return {};
  }

  void extend(const std::vector<Label>& labels, std::size_t first, const Step& step, std::int32_t copies, const Rest& rest,
              std::vector<Label>& out) const {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const Label label = extended(steps_, labels[i], step, copies, static_cast<std::int32_t>(first + i));
      if (label.cost < kForbidden && completion_.worthwhile(label, rest)) out.push_back(label);
    }
  }

  const Steps& steps_;
  const Completion& completion_;
  std::vector<Label> kept_;
};

/// No choice that is allowed costs more.
double worst_cost(const Chain& chain) {
  double worst = 0, way = 0;
  for (const auto& row : chain.transition)
    for (const double t : row)
      if (!std::isinf(t)) way = std::max(way, t);
  for (const Run& run : chain.runs) {
    double item = 0;
    for (const Item& i : chain.items[static_cast<std::size_t>(run.type)]) item = std::max(item, i.cost);
    worst += run.count * (item + way);
  }
  return worst > 0 ? worst * (1 + 1e-6) : 1;
}

}  // namespace
}  // namespace layers

using namespace layers;

std::optional<LayerSolution> best_layers(const LayerProblem& problem, const LayerObjective& objective, std::int64_t capacity,
                                         double upper_bound) {
  if (problem.layers.empty()) return LayerSolution{};
  const Chain chain = make_chain(problem, Criteria::weighted, objective, capacity);
  const Multipliers m = multipliers(chain);
  if (std::isinf(m.root) || m.root >= upper_bound) return std::nullopt;
  const auto bounds = item_bounds(chain, m);
  const double last = std::min(upper_bound, worst_cost(chain));
  // The limit rises from just above the lower bound: a search whose limit is below the optimum is short, as few labels can end there, and
  // the first that finds a choice has found the best.
  double step = std::max(m.root / (16.0 * static_cast<double>(problem.layers.size())), last * 1e-9);
  for (;; step *= 2) {
    const double limit = std::min(m.root + step, last);
    const Steps steps = make_steps(chain, bounds, limit, 1);
    const Completion completion(chain, steps, m, limit);
    if (!completion.hopeless()) {
      std::vector<std::int32_t> options = LabelSearch(steps, completion).search();
      if (!options.empty()) return solution_of(problem, std::move(options));
    }
    if (limit >= last) return std::nullopt;
  }
}

double layers_lower_bound(const LayerProblem& problem, const LayerObjective& objective, std::int64_t capacity) {
  return multipliers(make_chain(problem, Criteria::weighted, objective, capacity)).root;
}

}  // namespace espalier::search
