// SPDX-License-Identifier: Apache-2.0
#include "solve/layer_chain.h"

#include <algorithm>
#include <cmath>

#include "base/infinity.h"
#include "base/invariant.h"

namespace espalier::solve {
namespace {

using base::kInfinity;

/// Keeps infinity infinite at weight 0, so that a forbidden option stays forbidden.
double weighted(double weight, double x) { return std::isinf(x) ? kInfinity : weight * x; }

Item make_item(const LayerOption& o, std::int32_t index, Criteria criteria, const LayerObjective& weights,
               std::int64_t in_flight) {
  Item item;
  if (criteria == Criteria::weighted) {
    item.cost = weighted(weights.steady_weight, o.steady) + weighted(weights.sync_weight, o.sync);
  } else {
    item.cost = o.steady;
    item.tail = criteria == Criteria::steady_and_sync ? o.sync : std::isinf(o.sync) ? o.sync : 0;
  }
  item.memory = o.states + in_flight * o.saved;
  item.saved = o.saved;
  item.transient = o.transient;
  item.layout = o.layout;
  item.option = index;
  return item;
}

bool beats(const Item& a, const Item& b) {
  return a.cost <= b.cost && a.tail <= b.tail && a.base() <= b.base() && a.memory <= b.memory &&
         a.memory + a.transient <= b.memory + b.transient;
}

/// Removes items that are beaten within their layout, among equals all but the first; `items` are sorted by rising
/// layout.
void drop_beaten(std::vector<Item>& items) {
  std::vector<Item> kept;
  std::size_t first = 0;  // first item of the layout, in kept
  for (const Item& item : items) {
    if (first < kept.size() && kept[first].layout != item.layout) first = kept.size();
    const auto begin = kept.begin() + static_cast<std::ptrdiff_t>(first);
    if (std::any_of(begin, kept.end(), [&](const Item& k) { return beats(k, item); })) continue;
    kept.erase(std::remove_if(begin, kept.end(), [&](const Item& k) { return beats(item, k); }), kept.end());
    kept.push_back(item);
  }
  items = std::move(kept);
}

/// Returns whether layout a can replace layout b everywhere.
bool stands_for(const Chain& chain, const std::vector<bool>& gone, std::int32_t a, std::int32_t b) {
  if (chain.way(a, a) > chain.way(b, b) || chain.way(a, a) > chain.way(a, b) || chain.way(a, a) > chain.way(b, a)) return false;
  for (std::int32_t x = 0; static_cast<std::size_t>(x) < chain.layouts; ++x) {
    if (x == a || x == b || gone[static_cast<std::size_t>(x)]) continue;
    if (chain.way(x, a) > chain.way(x, b) || chain.way(a, x) > chain.way(b, x)) return false;
  }
  for (const auto& items : chain.items) {
    for (const Item& item : items) {
      if (item.layout != b) continue;
      const auto better = [&](const Item& other) { return other.layout == a && beats(other, item); };
      if (std::none_of(items.begin(), items.end(), better)) return false;
    }
  }
  return true;
}

/// Returns the chain with other items; layouts without items are removed, and the others are renumbered in their
/// order.
Chain with_items(const Chain& chain, std::vector<std::vector<Item>> items) {
  std::vector<std::int32_t> number(chain.layouts, -1), kept;
  for (const auto& of_type : items)
    for (const Item& item : of_type) number[static_cast<std::size_t>(item.layout)] = 0;
  for (std::size_t a = 0; a < chain.layouts; ++a) {
    if (number[a] < 0) continue;
    number[a] = static_cast<std::int32_t>(kept.size());
    kept.push_back(static_cast<std::int32_t>(a));
  }
  for (auto& of_type : items)
    for (Item& item : of_type) item.layout = number[static_cast<std::size_t>(item.layout)];
  Chain out{chain.runs, std::move(items), kept.size(), {}, chain.capacity};
  for (const std::int32_t from : kept)
    for (const std::int32_t to : kept) out.transition.push_back(chain.way(from, to));
  return out;
}

}  // namespace

Chain make_chain(const LayerProblem& problem, Criteria criteria, const LayerObjective& weights, std::int64_t capacity) {
  ESPALIER_CHECK(problem.in_flight >= 1);
  Chain chain;
  chain.capacity = capacity;
  for (const std::int32_t type : problem.layers) {
    ESPALIER_CHECK(type >= 0 && static_cast<std::size_t>(type) < problem.options.size());
    if (chain.runs.empty() || chain.runs.back().type != type) chain.runs.push_back({type, 0});
    ++chain.runs.back().count;
  }
  chain.layouts = problem.transition.size();
  const double weight = criteria == Criteria::weighted ? weights.steady_weight : 1;
  for (const auto& row : problem.transition) {
    ESPALIER_CHECK(row.size() == chain.layouts);
    for (const double t : row) chain.transition.push_back(weighted(weight, t));
  }
  for (const auto& options : problem.options) {
    std::vector<Item> items;
    for (std::size_t i = 0; i < options.size(); ++i) {
      ESPALIER_CHECK(options[i].layout >= 0 && static_cast<std::size_t>(options[i].layout) < problem.transition.size());
      items.push_back(make_item(options[i], static_cast<std::int32_t>(i), criteria, weights, problem.in_flight));
      if (std::isinf(items.back().cost) || std::isinf(items.back().tail)) items.pop_back();
    }
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.layout < b.layout; });
    drop_beaten(items);
    chain.items.push_back(std::move(items));
  }
  return chain;
}

Chain below(const Chain& chain, const std::vector<std::vector<double>>& bounds, double limit) {
  std::vector<std::vector<Item>> items(chain.items.size());
  for (std::size_t t = 0; t < items.size(); ++t)
    for (std::size_t i = 0; i < chain.items[t].size(); ++i)
      if (bounds[t][i] < limit) items[t].push_back(chain.items[t][i]);
  return with_items(chain, std::move(items));
}

Chain within(const Chain& chain, const std::vector<std::int32_t>& layouts) {
  std::vector<std::vector<Item>> items(chain.items.size());
  for (std::size_t t = 0; t < items.size(); ++t)
    for (const Item& item : chain.items[t])
      if (std::find(layouts.begin(), layouts.end(), item.layout) != layouts.end()) items[t].push_back(item);
  return with_items(chain, std::move(items));
}

Chain without_beaten_layouts(const Chain& chain) {
  std::vector<bool> gone(chain.layouts, false);
  bool any = false;
  for (std::size_t b = chain.layouts; b-- > 0;) {
    for (std::size_t a = 0; a < chain.layouts && !gone[b]; ++a)
      if (a != b && !gone[a] && stands_for(chain, gone, static_cast<std::int32_t>(a), static_cast<std::int32_t>(b)))
        gone[b] = any = true;
  }
  if (!any) return chain;
  std::vector<std::int32_t> left;
  for (std::size_t a = 0; a < chain.layouts; ++a)
    if (!gone[a]) left.push_back(static_cast<std::int32_t>(a));
  return within(chain, left);
}

bool is_metric(const Chain& chain) {
  const std::size_t n = chain.layouts;
  const std::vector<double>& t = chain.transition;
  for (std::size_t a = 0; a < n; ++a) {
    if (t[a * n + a] != 0) return false;
    for (std::size_t b = 0; b < n; ++b)
      for (std::size_t c = 0; c < n; ++c)
        if (t[a * n + c] > (t[a * n + b] + t[b * n + c]) * (1 + kRounding)) return false;
  }
  return true;
}

}  // namespace espalier::solve
