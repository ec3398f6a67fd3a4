// SPDX-License-Identifier: Apache-2.0
#include "search/layer_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace espalier::search::layers {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kSlopesEachSide = 8;

/// Infinite stays infinite at weight 0: what is not allowed costs nothing to nobody.
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
  item.saved = o.saved, item.transient = o.transient;
  item.layout = o.layout, item.option = index;
  return item;
}

bool beats(const Item& a, const Item& b) {
  return a.cost <= b.cost && a.tail <= b.tail && a.base() <= b.base() && a.memory <= b.memory &&
         a.memory + a.transient <= b.memory + b.transient;
}

/// `items` by rising layout; what is beaten within its layout goes, of equals all but the first.
void drop_beaten(std::vector<Item>& items) {
  std::vector<Item> kept;
  std::size_t first = 0;  // of the layout, in kept
  for (const Item& item : items) {
    if (first < kept.size() && kept[first].layout != item.layout) first = kept.size();
    const auto begin = kept.begin() + static_cast<std::ptrdiff_t>(first);
    if (std::any_of(begin, kept.end(), [&](const Item& k) { return beats(k, item); })) continue;
    kept.erase(std::remove_if(begin, kept.end(), [&](const Item& k) { return beats(item, k); }), kept.end());
    kept.push_back(item);
  }
  items = std::move(kept);
}

using Vertex = const Item*;

/// The lower convex hull of (memory, cost) by rising memory and falling cost, without item `skip`.
std::vector<Vertex> lower_hull(const std::vector<Vertex>& by_memory, Vertex skip) {
  std::vector<Vertex> hull;
  for (const Vertex v : by_memory) {
    if (v == skip || (!hull.empty() && v->cost >= hull.back()->cost)) continue;
    if (!hull.empty() && v->memory == hull.back()->memory) hull.pop_back();
    while (hull.size() >= 2) {
      const Vertex a = hull[hull.size() - 2], b = hull.back();
      const double ab = (a->cost - b->cost) * static_cast<double>(v->memory - b->memory);
      const double bv = (b->cost - v->cost) * static_cast<double>(b->memory - a->memory);
      if (ab > bv) break;
      hull.pop_back();
    }
    hull.push_back(v);
  }
  return hull;
}

std::vector<Vertex> by_memory(const std::vector<Item>& items) {
  std::vector<Vertex> sorted;
  for (const Item& item : items) sorted.push_back(&item);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](Vertex a, Vertex b) { return a->memory != b->memory ? a->memory < b->memory : a->cost < b->cost; });
  return sorted;
}

struct Edge {
  double slope = 0;
  std::int64_t memory = 0;  ///< of all layers of the type together
  std::int32_t type = 0;
  Vertex lean = nullptr, fat = nullptr;
};

void add_edges(const std::vector<Vertex>& hull, std::int32_t type, std::int64_t layers, std::vector<Edge>& edges) {
  for (std::size_t i = 1; i < hull.size(); ++i) {
    const Vertex a = hull[i - 1], b = hull[i];
    const std::int64_t bytes = b->memory - a->memory;
    edges.push_back({(a->cost - b->cost) / static_cast<double>(bytes), bytes * layers, type, a, b});
  }
}

/// 0 and the slopes nearest to `centre` on both sides, rising.
std::vector<double> slopes_around(std::vector<double> slopes, double centre) {
  slopes.push_back(0), slopes.push_back(centre);
  std::sort(slopes.begin(), slopes.end());
  slopes.erase(std::unique(slopes.begin(), slopes.end()), slopes.end());
  const auto at = static_cast<std::size_t>(std::lower_bound(slopes.begin(), slopes.end(), centre) - slopes.begin());
  const std::size_t first = at > kSlopesEachSide ? at - kSlopesEachSide : 0,
                    end = std::min(slopes.size(), at + kSlopesEachSide + 1);
  std::vector<double> out;
  if (first > 0) out.push_back(0);
  for (std::size_t i = first; i < end; ++i) out.push_back(slopes[i]);
  return out;
}

std::vector<std::int64_t> layers_of_types(const Chain& chain) {
  std::vector<std::int64_t> layers(chain.items.size());
  for (const Run& run : chain.runs) layers[static_cast<std::size_t>(run.type)] += run.count;
  return layers;
}

/// Least transition between a layout and any other, in either direction.
std::vector<double> least_transitions(const Chain& chain) {
  std::vector<double> least(chain.transition.size(), kInfinity);
  std::vector<bool> used(chain.transition.size(), false);
  for (const auto& items : chain.items)
    for (const Item& item : items) used[static_cast<std::size_t>(item.layout)] = true;
  for (std::size_t a = 0; a < least.size(); ++a) {
    for (std::size_t x = 0; x < least.size(); ++x)
      if (x != a && used[x]) least[a] = std::min({least[a], chain.transition[a][x], chain.transition[x][a]});
  }
  return least;
}

/// The bounds of one λ raise `bounds`.
void raise_item_bounds(const Chain& chain, const Multipliers& m, double lambda, const std::vector<std::int64_t>& layers,
                       const std::vector<double>& least_transition, std::vector<std::vector<double>>& bounds) {
  const std::size_t types = chain.items.size(), layouts = chain.transition.size();
  std::vector<double> any(types, kInfinity), inside(types * layouts, kInfinity);
  for (std::size_t t = 0; t < types; ++t) {
    for (const Item& item : chain.items[t]) {
      const double v = value(item, lambda, m.least_memory[t]);
      double& in = inside[t * layouts + static_cast<std::size_t>(item.layout)];
      any[t] = std::min(any[t], v), in = std::min(in, v);
    }
  }
  const double slack = lambda * static_cast<double>(m.slack);
  double total = 0;
  std::vector<double> alone(layouts, 0);
  for (std::size_t t = 0; t < types; ++t) {
    if (layers[t] == 0) continue;
    total += static_cast<double>(layers[t]) * any[t];
    for (std::size_t a = 0; a < layouts; ++a) alone[a] += static_cast<double>(layers[t]) * inside[t * layouts + a];
  }
  for (std::size_t t = 0; t < types; ++t) {
    for (std::size_t i = 0; i < chain.items[t].size(); ++i) {
      const Item& item = chain.items[t][i];
      const auto a = static_cast<std::size_t>(item.layout);
      const double v = value(item, lambda, m.least_memory[t]);
      const double mixed = total + (v - any[t]) + least_transition[a], pure = alone[a] + (v - inside[t * layouts + a]);
      const double bound = std::min(mixed, pure);
      bounds[t][i] = std::max(bounds[t][i], std::isinf(bound) ? bound : bound - slack - kRounding * (bound + slack));
    }
  }
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
  chain.transition = problem.transition;
  const double weight = criteria == Criteria::weighted ? weights.steady_weight : 1;
  for (auto& row : chain.transition)
    for (double& t : row) t = weighted(weight, t);
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

Multipliers multipliers(const Chain& chain) {
  Multipliers m;
  m.lambda = {0};
  m.least_memory.assign(chain.items.size(), 0);
  m.slack = chain.capacity;
  if (chain.runs.empty()) return m;
  const std::vector<std::int64_t> layers = layers_of_types(chain);
  std::vector<Edge> edges;
  std::vector<std::vector<Vertex>> sorted(chain.items.size());
  double cost = 0;
  for (std::size_t t = 0; t < chain.items.size(); ++t) {
    if (layers[t] == 0) continue;
    if (chain.items[t].empty()) return m.root = kInfinity, m.slack = -1, m;
    sorted[t] = by_memory(chain.items[t]);
    const auto hull = lower_hull(sorted[t], nullptr);
    m.least_memory[t] = hull.front()->memory;
    m.slack -= hull.front()->memory * layers[t];
    cost += hull.front()->cost * static_cast<double>(layers[t]);
    add_edges(hull, static_cast<std::int32_t>(t), layers[t], edges);
  }
  const auto& last = chain.items[static_cast<std::size_t>(chain.runs.back().type)];
  std::int64_t transient = last.front().transient;
  for (const Item& item : last) transient = std::min(transient, item.transient);
  m.slack -= transient;
  if (m.slack < 0) return m.root = kInfinity, m;

  std::stable_sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.slope > b.slope; });
  const double most = cost;
  std::int64_t left = m.slack;
  const Edge* critical = nullptr;
  for (const Edge& edge : edges) {
    cost -= edge.slope * static_cast<double>(std::min(left, edge.memory));
    if (edge.memory > left) {
      critical = &edge;
      break;
    }
    left -= edge.memory;
  }
  m.root = std::max(0.0, cost - 10 * kRounding * most);
  m.root_lambda = critical != nullptr ? critical->slope : 0;

  std::vector<double> slopes;
  for (const Edge& edge : edges) slopes.push_back(edge.slope);
  if (critical != nullptr) {
    // Without one of its two ends, the hull tells what the problem is like once the other is used up.
    std::vector<Edge> around;
    const auto type = static_cast<std::size_t>(critical->type);
    for (const Vertex skip : {critical->lean, critical->fat})
      add_edges(lower_hull(sorted[type], skip), critical->type, 1, around);
    for (const Edge& edge : around) slopes.push_back(edge.slope);
  }
  m.lambda = slopes_around(std::move(slopes), m.root_lambda);
  return m;
}

std::vector<std::vector<double>> item_bounds(const Chain& chain, const Multipliers& multipliers) {
  std::vector<std::vector<double>> bounds;
  for (const auto& items : chain.items) bounds.emplace_back(items.size(), 0.0);
  const auto layers = layers_of_types(chain);
  std::vector<double> least = least_transitions(chain);
  for (const double lambda : multipliers.lambda) raise_item_bounds(chain, multipliers, lambda, layers, least, bounds);
  return bounds;
}

}  // namespace espalier::search::layers
