// SPDX-License-Identifier: Apache-2.0
// Holds the floors of one branch and bound. A floor is a time below which no configuration of a schedule choice both
// runs and fits. Floors start as the choice's bound and rise when the choice is expanded. When the search is finished
// they are passed on: to a second search of the same problem (known_bounds.h), and to one after a change of the
// cluster (search_record.h).
#pragma once

#include <cstdint>
#include <vector>

#include "search/frame.h"

namespace espalier::search {

class Floors {
 public:
  using LayerNode = KnownBounds::LayerChoice;

  /// Adds the bounds of all schedule choices of nodes[layer]; returns the slot of the first of them.
  std::int64_t add(std::size_t layer, const std::vector<std::int64_t>& bounds);
  /// Raises the floor of a slot that add() returned.
  void raise(std::int64_t slot, std::int64_t floor_ns);
  /// Restricts the search to the choices that Options::carried lists; known facts about the rest stay.
  void carry() { carried_ = true; }
  /// Drops a layer choice that the record alone rules out, by its place there; known facts about it stay.
  void drop(std::size_t carried) { dropped_.push_back(carried); }

  /// Returns the bounds that a search that allows Options::keep_within times the answer may request.
  [[nodiscard]] KnownBounds known(const SearchFrame& frame, const std::vector<LayerNode>& nodes) const;
  /// Returns the record that a search after a change of the cluster may use. `too_large` counts configurations that
  /// no layer choice kept because of their memory.
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
