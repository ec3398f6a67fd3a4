// SPDX-License-Identifier: Apache-2.0
#include "solve/layer_bound.h"

#include <algorithm>
#include <cmath>

#include "base/infinity.h"

namespace espalier::solve {
namespace {

using base::kInfinity;
constexpr std::size_t kSlopesEachSide = 8;

/// Holds an item as a point (memory, cost); `memory` includes the transient for the last layer.
struct Vertex {
  std::int64_t memory = 0;
  double cost = 0;
};

/// Returns the points by rising memory, and for equal memory by rising cost.
std::vector<Vertex> vertices(const std::vector<Item>& items, bool last) {
  std::vector<Vertex> out;
  for (const Item& item : items) out.push_back({item.memory + (last ? item.transient : 0), item.cost});
  std::sort(out.begin(), out.end(),
            [](const Vertex& a, const Vertex& b) { return a.memory != b.memory ? a.memory < b.memory : a.cost < b.cost; });
  return out;
}

/// Returns the lower convex hull by rising memory and falling cost, without the points equal to `skip`.
std::vector<Vertex> lower_hull(const std::vector<Vertex>& sorted, const Vertex* skip) {
  std::vector<Vertex> hull;
  for (const Vertex& v : sorted) {
    if (skip != nullptr && v.memory == skip->memory && v.cost == skip->cost) continue;
    if (!hull.empty() && v.cost >= hull.back().cost) continue;
    while (hull.size() >= 2) {
      const Vertex &a = hull[hull.size() - 2], &b = hull.back();
      const double ab = (a.cost - b.cost) * static_cast<double>(v.memory - b.memory);
      const double bv = (b.cost - v.cost) * static_cast<double>(b.memory - a.memory);
      if (ab > bv) break;
      hull.pop_back();
    }
    hull.push_back(v);
  }
  return hull;
}

struct Edge {
  double slope = 0;
  std::int64_t memory = 0;  ///< memory of all layers that have it
  std::size_t kind = 0;
  Vertex lean, fat;
};

void add_edges(const std::vector<Vertex>& hull, std::size_t kind, std::int64_t layers, std::vector<Edge>& edges) {
  for (std::size_t i = 1; i < hull.size(); ++i) {
    const Vertex &a = hull[i - 1], &b = hull[i];
    const std::int64_t bytes = b.memory - a.memory;
    edges.push_back({(a.cost - b.cost) / static_cast<double>(bytes), bytes * layers, kind, a, b});
  }
}

/// Returns 0 and the slopes nearest to `centre` on both sides, rising.
std::vector<double> slopes_around(const std::vector<Edge>& edges, double centre) {
  std::vector<double> slopes = {0, centre};
  for (const Edge& edge : edges) slopes.push_back(edge.slope);
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

/// Returns the number of layers of each type, without the last layer.
std::vector<std::int64_t> layers_of_types(const Chain& chain) {
  std::vector<std::int64_t> layers(chain.items.size());
  for (const TypeRun& run : chain.runs) layers[static_cast<std::size_t>(run.type)] += run.count;
  --layers[static_cast<std::size_t>(chain.runs.back().type)];
  return layers;
}

/// Holds the hulls of every kind of layer: the types, and the last layer.
struct Hulls {
  bool complete = true;                     ///< every kind that has layers has items
  std::vector<std::int64_t> least;          ///< [kind] memory
  std::vector<std::vector<Vertex>> sorted;  ///< [kind]
  std::int64_t memory = 0;                  ///< memory of all layers at their leanest
  double cost = 0;                          ///< cost at that memory
  std::vector<Edge> edges;                  ///< by falling slope
};

Hulls hulls_of(const Chain& chain) {
  const std::vector<std::int64_t> layers = layers_of_types(chain);
  const auto last_type = static_cast<std::size_t>(chain.runs.back().type);
  const std::size_t last = layers.size();
  Hulls out;
  out.sorted.resize(last + 1);
  out.least.resize(last + 1);
  for (std::size_t kind = 0; kind <= last; ++kind) {
    const std::int64_t n = kind == last ? 1 : layers[kind];
    const auto& items = chain.items[kind == last ? last_type : kind];
    if (n == 0 && kind != last_type) continue;
    out.complete = out.complete && !items.empty();
    if (!out.complete) return out;
    out.sorted[kind] = vertices(items, kind == last);
    const auto hull = lower_hull(out.sorted[kind], nullptr);
    out.least[kind] = hull.front().memory;
    out.memory += hull.front().memory * n;
    out.cost += hull.front().cost * static_cast<double>(n);
    if (n > 0) add_edges(hull, kind, n, out.edges);
  }
  std::stable_sort(out.edges.begin(), out.edges.end(), [](const Edge& a, const Edge& b) { return a.slope > b.slope; });
  return out;
}

/// Returns the least transition between a layout and any other, in either direction.
std::vector<double> least_transitions(const Chain& chain) {
  std::vector<double> least(chain.layouts, kInfinity);
  std::vector<bool> used(chain.layouts, false);
  for (const auto& items : chain.items)
    for (const Item& item : items) used[static_cast<std::size_t>(item.layout)] = true;
  for (std::size_t a = 0; a < least.size(); ++a) {
    for (std::size_t x = 0; x < least.size(); ++x)
      if (x != a && used[x])
        least[a] = std::min({least[a], chain.transition[a * least.size() + x], chain.transition[x * least.size() + a]});
  }
  return least;
}

/// Holds the least values at one λ: over all items, and over those of each layout.
struct LeastValues {
  double any = kInfinity;
  std::vector<double> within;
};

template <class Value>
LeastValues least_values(const std::vector<Item>& items, std::size_t layouts, const Value& value_of) {
  LeastValues out{kInfinity, std::vector<double>(layouts, kInfinity)};
  for (const Item& item : items) {
    const double v = value_of(item);
    double& in = out.within[static_cast<std::size_t>(item.layout)];
    out.any = std::min(out.any, v);
    in = std::min(in, v);
  }
  return out;
}

/// Computes bounds of choices that use an item, at one λ.
class ItemBounds {
 public:
  ItemBounds(const Chain& chain, const Multipliers& m, double lambda, const std::vector<std::int64_t>& layers)
      : chain_(chain), m_(m), lambda_(lambda), alone_(chain.layouts, 0), layers_(layers) {
    for (std::size_t t = 0; t < chain.items.size(); ++t) {
      least_.push_back(
          least_values(chain.items[t], chain.layouts, [&](const Item& item) { return value(item, lambda, m.least_memory[t]); }));
      if (layers[t] > 0) add(least_[t], static_cast<double>(layers[t]));
    }
    last_ = least_values(chain.items[last_type()], chain.layouts,
                         [&](const Item& item) { return last_value(item, lambda, m.least_last); });
    add(last_, 1);
    slack_ = lambda * static_cast<double>(m.slack);
  }

  [[nodiscard]] double bound(std::size_t type, const Item& item, double way, bool alone_allowed) const {
    double least = kInfinity;
    if (layers_[type] > 0) least = with(item, value(item, lambda_, m_.least_memory[type]), least_[type], way, alone_allowed);
    if (type == last_type())
      least = std::min(least, with(item, last_value(item, lambda_, m_.least_last), last_, way, alone_allowed));
    return std::isinf(least) ? least : least - slack_ - kRounding * (least + slack_);
  }

 private:
  [[nodiscard]] std::size_t last_type() const { return static_cast<std::size_t>(chain_.runs.back().type); }
  void add(const LeastValues& least, double layers) {
    total_ += layers * least.any;
    for (std::size_t a = 0; a < alone_.size(); ++a) alone_[a] += layers * least.within[a];
  }
  [[nodiscard]] double with(const Item& item, double v, const LeastValues& least, double way, bool alone_allowed) const {
    const auto a = static_cast<std::size_t>(item.layout);
    const double mixed = total_ + (v - least.any) + way;
    return alone_allowed ? std::min(mixed, alone_[a] + (v - least.within[a])) : mixed;
  }

  const Chain& chain_;
  const Multipliers& m_;
  double lambda_, total_ = 0, slack_ = 0;
  std::vector<double> alone_;  ///< [layout] all layers in it
  const std::vector<std::int64_t>& layers_;
  std::vector<LeastValues> least_;  ///< [type]
  LeastValues last_;
};

std::vector<std::vector<double>> bounds_of_items(const Chain& chain, const Multipliers& multipliers,
                                                 const std::vector<double>& least_transition, bool alone_allowed) {
  std::vector<std::vector<double>> bounds;
  for (const auto& items : chain.items) bounds.emplace_back(items.size(), 0.0);
  const auto layers = layers_of_types(chain);
  for (const double lambda : multipliers.lambda) {
    const ItemBounds at(chain, multipliers, lambda, layers);
    for (std::size_t t = 0; t < chain.items.size(); ++t) {
      for (std::size_t i = 0; i < chain.items[t].size(); ++i) {
        const Item& item = chain.items[t][i];
        const double way = least_transition[static_cast<std::size_t>(item.layout)];
        bounds[t][i] = std::max(bounds[t][i], at.bound(t, item, way, alone_allowed));
      }
    }
  }
  return bounds;
}

}  // namespace

Multipliers multipliers(const Chain& chain) {
  Multipliers m;
  m.lambda = {0};
  m.slack = chain.capacity;
  if (chain.runs.empty()) return m;
  const Hulls hulls = hulls_of(chain);
  m.least_memory = hulls.least;
  m.least_last = m.least_memory.back();
  m.least_memory.pop_back();
  m.slack -= hulls.memory;
  if (!hulls.complete || m.slack < 0) {
    m.root = kInfinity;
    m.slack = -1;
    return m;
  }

  double cost = hulls.cost;
  std::int64_t left = m.slack;
  const Edge* critical = nullptr;
  for (const Edge& edge : hulls.edges) {
    cost -= edge.slope * static_cast<double>(std::min(left, edge.memory));
    if (edge.memory > left) {
      critical = &edge;
      break;
    }
    left -= edge.memory;
  }
  m.root = std::max(0.0, cost - 10 * kRounding * hulls.cost);
  m.root_lambda = critical != nullptr ? critical->slope : 0;

  std::vector<Edge> edges = hulls.edges;
  if (critical != nullptr) {
    // Without one of its two ends, the hull shows the slopes once the other end is used up.
    for (const Vertex& skip : {critical->lean, critical->fat})
      add_edges(lower_hull(hulls.sorted[critical->kind], &skip), 0, 1, edges);
  }
  m.lambda = slopes_around(edges, m.root_lambda);
  return m;
}

std::vector<std::vector<double>> item_bounds(const Chain& chain, const Multipliers& multipliers) {
  return bounds_of_items(chain, multipliers, least_transitions(chain), true);
}

std::vector<std::vector<double>> item_bounds(const Chain& chain, const Multipliers& multipliers, double way) {
  return bounds_of_items(chain, multipliers, std::vector<double>(chain.layouts, way), false);
}

}  // namespace espalier::solve
