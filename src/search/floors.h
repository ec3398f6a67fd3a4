// SPDX-License-Identifier: Apache-2.0
// Floors of one branch and bound as it goes: below which time no configuration of a schedule choice that fits stays.
// They begin with its bound and rise when it is expanded. When the search is finished they are handed on: to a second
// search of the same problem (known_bounds.h), and to one after a change of the cluster (search_record.h).
#pragma once

#include <cstdint>
#include <vector>

#include "search/frame.h"

namespace espalier::search {

class Floors {
 public:
  using LayerNode = KnownBounds::LayerChoice;

  /// Takes the bounds of all schedule choices of nodes[layer]; the slot of the first of them.
  std::int64_t add(std::size_t layer, const std::vector<std::int64_t>& bounds);
  /// Of a slot of add.
  void raise(std::int64_t slot, std::int64_t floor_ns);
  /// The search looks at what Options::carried lists only; what is known of the rest stays.
  void carry() { carried_ = true; }
  /// A layer choice that the record was enough to drop, by its place there; what was known of it stays.
  void drop(std::size_t carried) { dropped_.push_back(carried); }

  /// What a search that allows Options::keep_within times the answer may ask for.
  [[nodiscard]] KnownBounds known(const SearchFrame& frame, const std::vector<LayerNode>& nodes) const;
  /// What a search after a change of the cluster may ask for; `too_large`: configurations that no layer choice left,
  /// for their memory.
  [[nodiscard]] SearchRecord record(const SearchFrame& frame, const std::vector<LayerNode>& nodes, double too_large) const;

 private:
  struct Row {
    std::size_t layer = 0, first = 0, count = 0;
  };
  void add_dropped(const SearchFrame& frame, SearchRecord& out) const;

  std::vector<Row> rows_;
  std::vector<std::int64_t> floors_;
  bool carried_ = false;
  std::vector<std::size_t> dropped_;
};

}  // namespace espalier::search
