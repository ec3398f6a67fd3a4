// SPDX-License-Identifier: Apache-2.0
#include "search/layer_steps.h"

#include <algorithm>
#include <cmath>

namespace espalier::search::layers {
namespace {

using Kept = std::vector<std::vector<Item>>;

bool beats(const Item& a, const Item& b) {
  return a.cost <= b.cost && a.tail <= b.tail && a.base() <= b.base() && a.memory <= b.memory &&
         a.memory + a.transient <= b.memory + b.transient;
}

/// Layout a may stand wherever b stands.
bool stands_for(const Chain& chain, const Kept& items, const std::vector<std::int32_t>& layouts, std::int32_t a, std::int32_t b) {
  const auto t = [&](std::int32_t from, std::int32_t to) {
    return chain.transition[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  };
  if (t(a, a) > t(b, b) || t(a, a) > t(a, b) || t(a, a) > t(b, a)) return false;
  for (const std::int32_t x : layouts)
    if (x != a && x != b && (t(x, a) > t(x, b) || t(a, x) > t(b, x))) return false;
  for (const auto& of_type : items) {
    for (const Item& item : of_type) {
      if (item.layout != b) continue;
      const auto better = [&](const Item& other) { return other.layout == a && beats(other, item); };
      if (std::none_of(of_type.begin(), of_type.end(), better)) return false;
    }
  }
  return true;
}

std::vector<std::int32_t> layouts_of(const Kept& items) {
  std::vector<std::int32_t> layouts;
  for (const auto& of_type : items)
    for (const Item& item : of_type) layouts.push_back(item.layout);
  std::sort(layouts.begin(), layouts.end());
  layouts.erase(std::unique(layouts.begin(), layouts.end()), layouts.end());
  return layouts;
}

/// Layouts left when those go that another can stand for, one at a time.
std::vector<std::int32_t> drop_layouts(const Chain& chain, Kept& items) {
  std::vector<std::int32_t> layouts = layouts_of(items);
  for (std::size_t b = layouts.size(); b-- > 0;) {
    const std::int32_t layout = layouts[b];
    const auto better = [&](std::int32_t a) { return a != layout && stands_for(chain, items, layouts, a, layout); };
    if (std::none_of(layouts.begin(), layouts.end(), better)) continue;
    layouts.erase(layouts.begin() + static_cast<std::ptrdiff_t>(b));
    for (auto& of_type : items) {
      const auto gone = [&](const Item& item) { return item.layout == layout; };
      of_type.erase(std::remove_if(of_type.begin(), of_type.end(), gone), of_type.end());
    }
  }
  return layouts;
}

/// Ticks a second: the power of two at which `limit` is at most 2⁵⁹ ticks.
double ticks_per_second(double limit) {
  int exponent = 0;
  std::frexp(limit > 0 ? limit : 1, &exponent);
  return std::ldexp(1.0, std::clamp(59 - exponent, -1000, 1000));
}

std::int64_t in_ticks(double x, double scale) {
  return x * scale < static_cast<double>(kForbidden) ? std::llround(x * scale) : kForbidden;
}

bool is_metric(const std::vector<double>& t, std::size_t n) {
  for (std::size_t a = 0; a < n; ++a) {
    if (t[a * n + a] != 0) return false;
    for (std::size_t b = 0; b < n; ++b)
      for (std::size_t c = 0; c < n; ++c)
        if (t[a * n + c] > (t[a * n + b] + t[b * n + c]) * (1 + kRounding)) return false;
  }
  return true;
}

}  // namespace

std::vector<std::int32_t> options_of(const Label& label, const std::vector<Label>& kept) {
  std::vector<std::int32_t> options;
  for (const Label* at = &label;; at = &kept[static_cast<std::size_t>(at->after)]) {
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
    solution.steady += o.steady, solution.sync += o.sync;
    base += o.states + (problem.in_flight - 1) * o.saved;
    saved += o.saved;
    reach = std::max(reach, saved + o.transient);
    before = &o;
  }
  solution.held = base + saved, solution.peak = base + reach;
  solution.options = std::move(options);
  return solution;
}

Steps make_steps(const Chain& chain, const std::vector<std::vector<double>>& bounds, double limit, double tail_limit) {
  Kept items(chain.items.size());
  for (std::size_t t = 0; t < items.size(); ++t)
    for (std::size_t i = 0; i < chain.items[t].size(); ++i)
      if (bounds.empty() || bounds[t][i] < limit) items[t].push_back(chain.items[t][i]);
  const std::vector<std::int32_t> layouts = drop_layouts(chain, items);

  Steps steps;
  steps.layouts = layouts.size();
  const double scale = ticks_per_second(limit), tail_scale = ticks_per_second(tail_limit);
  steps.tick = 1 / scale;
  for (const auto& of_type : items) {
    std::vector<Step> out;
    for (const Item& item : of_type) {
      Step step{item, in_ticks(item.cost, scale), in_ticks(item.tail, tail_scale)};
      step.item.layout =
          static_cast<std::int32_t>(std::lower_bound(layouts.begin(), layouts.end(), item.layout) - layouts.begin());
      steps.reach_cut = std::max(steps.reach_cut, item.transient);
      if (step.cost < kForbidden) out.push_back(step);
    }
    steps.of_type.push_back(std::move(out));
  }
  for (const std::int32_t from : layouts)
    for (const std::int32_t to : layouts)
      steps.seconds.push_back(chain.transition[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)]);
  for (const double t : steps.seconds) steps.ticks.push_back(in_ticks(t, scale));
  steps.distance = layout_distances(steps.ticks, steps.layouts);
  steps.metric = is_metric(steps.seconds, steps.layouts);
  return steps;
}

}  // namespace espalier::search::layers
