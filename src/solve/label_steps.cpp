// SPDX-License-Identifier: Apache-2.0
#include "solve/label_steps.h"

#include <algorithm>
#include <cmath>

namespace espalier::solve {
namespace {

/// Returns the ticks per second: the power of two at which `limit` is at most 2⁵⁹ ticks.
double ticks_per_second(double limit) {
  int exponent = 0;
  std::frexp(limit > 0 ? limit : 1, &exponent);
  return std::ldexp(1.0, std::clamp(59 - exponent, -1000, 1000));
}

std::int64_t in_ticks(double x, double scale) {
  return x * scale < static_cast<double>(kForbidden) ? std::llround(x * scale) : kForbidden;
}

}  // namespace

std::vector<std::int32_t> options_of(const LayerLabel& label, const std::vector<LayerLabel>& kept) {
  std::vector<std::int32_t> options;
  for (const LayerLabel* at = &label;; at = &kept[static_cast<std::size_t>(at->after)]) {
    options.insert(options.end(), static_cast<std::size_t>(at->copies), at->option);
    if (at->after < 0) return options;
  }
}

LayerSolution solution_of(const LayerProblem& problem, std::vector<std::int32_t> options) {
  LayerSolution solution;
  std::int64_t saved = 0, reach = 0, base = 0;
  const LayerOption* before = nullptr;
  for (std::size_t l = 0; l < options.size(); ++l) {
    const LayerOption& o = problem.options[static_cast<std::size_t>(problem.layers[l])][static_cast<std::size_t>(options[l])];
    if (before != nullptr)
      solution.steady += problem.transition[static_cast<std::size_t>(before->layout)][static_cast<std::size_t>(o.layout)];
    solution.steady += o.steady;
    solution.sync += o.sync;
    base += o.states + (problem.in_flight - 1) * o.saved;
    saved += o.saved;
    reach = std::max(reach, saved + o.transient);
    before = &o;
  }
  solution.held = base + saved;
  solution.peak = base + reach;
  solution.options = std::move(options);
  return solution;
}

Steps make_steps(const Chain& chain, double limit, double tail_limit) {
  Steps steps;
  steps.layouts = chain.layouts;
  const double scale = ticks_per_second(limit), tail_scale = ticks_per_second(tail_limit);
  steps.tick = 1 / scale;
  for (const auto& items : chain.items) {
    std::vector<LabelExtension> out;
    for (const Item& item : items) {
      out.push_back({item, in_ticks(item.cost, scale), in_ticks(item.tail, tail_scale)});
      steps.reach_cut = std::max(steps.reach_cut, item.transient);
    }
    steps.of_type.push_back(std::move(out));
  }
  for (const double t : chain.transition) steps.ticks.push_back(in_ticks(t, scale));
  steps.distance = layout_distances(steps.ticks, steps.layouts);
  return steps;
}

}  // namespace espalier::solve
