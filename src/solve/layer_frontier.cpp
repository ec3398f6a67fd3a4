// SPDX-License-Identifier: Apache-2.0
// Finds all choices that no other equals or beats. With one cost, one search follows the other. With two costs,
// labels are built layer by layer with the memory as their only limit. That grows fast with the number of layers and
// is meant for a few.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "solve/label_steps.h"
#include "solve/layer_bound.h"
#include "solve/layer_labels.h"
#include "solve/layer_search.h"

namespace espalier::solve {
namespace {

struct Ceilings {
  double cost = 0, tail = 0;
};

/// Returns costs that no choice exceeds.
Ceilings ceilings(const Chain& chain) {
  Ceilings out;
  double way = 0;
  for (const double t : chain.transition)
    if (!std::isinf(t)) way = std::max(way, t);
  for (const TypeRun& run : chain.runs) {
    double cost = 0, tail = 0;
    for (const Item& item : chain.items[static_cast<std::size_t>(run.type)]) {
      cost = std::max(cost, item.cost);
      tail = std::max(tail, item.tail);
    }
    out.cost += run.count * (cost + way);
    out.tail += run.count * tail;
  }
  return out;
}

/// Returns the complete labels that none equals or beats in (cost, tail, memory), in any layout; by rising cost.
std::vector<LayerLabel> frontier_of(std::vector<LayerLabel> labels) {
  std::sort(labels.begin(), labels.end(), [](const LayerLabel& a, const LayerLabel& b) {
    return std::tuple(a.cost, a.tail, a.memory, a.layout, a.option, a.after) <
           std::tuple(b.cost, b.tail, b.memory, b.layout, b.option, b.after);
  });
  std::vector<LayerLabel> out;
  std::vector<std::pair<std::int64_t, std::int64_t>> stairs;  // (tail, memory) kept so far, none beating another
  for (const LayerLabel& label : labels) {
    const auto beaten = [&](const auto& s) { return s.first <= label.tail && s.second <= label.memory; };
    if (std::any_of(stairs.begin(), stairs.end(), beaten)) continue;
    const auto gone = [&](const auto& s) { return s.first >= label.tail && s.second >= label.memory; };
    stairs.erase(std::remove_if(stairs.begin(), stairs.end(), gone), stairs.end());
    stairs.emplace_back(label.tail, label.memory);
    out.push_back(label);
  }
  return out;
}

/// Handles two criteria: the best choice of a capacity, then the best below its peak, and so on. Equal costs may
/// differ by rounding.
std::vector<LayerSolution> frontier_by_capacity(const LayerProblem& problem, std::int64_t capacity) {
  constexpr double kEqual = 1e-12;
  std::vector<LayerSolution> out;
  for (;;) {
    auto next = best_layers(problem, {1, 0}, capacity, std::numeric_limits<double>::infinity());
    if (!next) return out;
    if (!out.empty() && next->steady <= out.back().steady * (1 + kEqual)) out.pop_back();
    capacity = next->peak - 1;
    out.push_back(std::move(*next));
  }
}

std::vector<LayerSolution> frontier_by_labels(const LayerProblem& problem, std::int64_t capacity) {
  const Chain chain = make_chain(problem, Criteria::steady_and_sync, {}, capacity);
  const Multipliers m = multipliers(chain);
  if (m.slack < 0) return {};
  const Ceilings most = ceilings(chain);
  const Steps steps = make_steps(without_beaten_layouts(chain), most.cost, most.tail);
  std::int64_t rest = 0;  // least memory of the remaining layers
  for (const TypeRun& run : chain.runs) rest += run.count * m.least_memory[static_cast<std::size_t>(run.type)];

  std::vector<LayerLabel> kept, open = {LayerLabel{0, 0, 0, 0, -1, -1, 0, 0}};
  for (std::size_t l = problem.layers.size(); l-- > 0;) {
    const auto type = static_cast<std::size_t>(problem.layers[l]);
    rest -= m.least_memory[type];
    const std::size_t first = kept.size();
    kept.insert(kept.end(), open.begin(), open.end());
    std::vector<LayerLabel> next;
    for (std::size_t i = 0; i < open.size(); ++i) {
      for (const LabelExtension& step : steps.of_type[type]) {
        const LayerLabel label = extended(steps, open[i], step, 1, static_cast<std::int32_t>(first + i));
        if (label.cost < kForbidden && label.memory + rest <= capacity) next.push_back(label);
      }
    }
    drop_superfluous(next, steps.distance, steps.layouts);
    open = std::move(next);
  }
  std::vector<LayerSolution> out;
  for (const LayerLabel& label : frontier_of(std::move(open))) out.push_back(solution_of(problem, options_of(label, kept)));
  return out;
}

}  // namespace

std::vector<LayerSolution> layer_frontier(const LayerProblem& problem, std::int64_t capacity, bool ignore_sync) {
  if (problem.layers.empty()) return {LayerSolution{}};
  return ignore_sync ? frontier_by_capacity(problem, capacity) : frontier_by_labels(problem, capacity);
}

}  // namespace espalier::solve
