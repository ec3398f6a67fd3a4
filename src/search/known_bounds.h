// SPDX-License-Identifier: Apache-2.0
// Holds the bounds of schedule choices that one search computed, for a second search of the same problem under
// another order. These bounds are most of the cost of a search of a large space, and they do not depend on the
// minimised quantity.
//
// A layer choice is listed if all its schedule choices were bounded. Its schedule choices within (1 + within) of the
// incumbent of that time are kept. Everything else is slower than (1 + within) times the answer. The layer choices
// are kept in the same way and need not be enumerated again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "search/space.h"

namespace espalier::search {

struct KnownBounds {
  struct Node {
    Configuration layers;
    std::vector<std::pair<Configuration, std::int64_t>> schedules;  ///< with their bounds, nanoseconds
  };
  std::vector<Node> nodes;  ///< in canonical order once sorted

  struct LayerChoice {
    Configuration choice;
    std::int64_t bound_ns = 0;
    double leaves = 0;
    std::int64_t carried = -1;  ///< place in the record that the search carries over (search_record.h); −1: none
  };
  /// Holds every layer choice that may fit and whose bound is within (1 + within) of the answer; only after a
  /// complete search.
  std::optional<std::vector<LayerChoice>> choices;

  void sort() {
    std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return canonical_less(a.layers, b.layers); });
  }
  /// Returns the node of a layer choice; null if unknown.
  [[nodiscard]] const Node* find(const Configuration& layers) const {
    const auto at = std::lower_bound(nodes.begin(), nodes.end(), layers,
                                     [](const Node& n, const Configuration& c) { return canonical_less(n.layers, c); });
    return at != nodes.end() && at->layers == layers ? &*at : nullptr;
  }
};

}  // namespace espalier::search
