// SPDX-License-Identifier: Apache-2.0
// Expands nodes of the tree of space.h: returns their children with bounds, without those that the rules of pruning.h
// remove. Expansion is pure: its result depends only on the current frame. Nodes of one batch are therefore expanded
// on any number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "search/frame.h"

namespace espalier::search {

/// Holds the result of expanding one node.
struct Expansion {
  std::vector<Leaf> leaves;
  /// Bounds of all schedule choices of a layer choice, in their order; the slot of a leaf is its index here.
  std::vector<std::int64_t> bounds;
  bool expanded = false;              ///< whether all its schedule choices were bounded
  std::int64_t floor_ns = INT64_MAX;  ///< lower bound of everything below a schedule choice that fits
  PruningState removed;
  std::int64_t bounded = 0;
};

class Expander {
 public:
  explicit Expander(const SearchFrame& frame) : frame_(frame) {}
  /// Expands the schedule choices of a layer choice.
  Expansion schedules(const KnownBounds::LayerChoice& node, Workspace& w) const;
  /// Expands the configurations below a schedule choice.
  Expansion configurations(const Leaf& node, Workspace& w) const;
  /// Returns a few promising configurations below a schedule choice. They use ZeRO 0 (one replica), or 1 and 3 over
  /// all replicas, with everything overlapped and the least recomputation that may fit.
  std::vector<Leaf> likely(const Configuration& schedule_choice, Workspace& w) const;

 private:
  template <class Visit>
  void each_schedule(const KnownBounds::LayerChoice& node, Workspace& w, Expansion& e, const Visit& visit) const;
  [[nodiscard]] const std::vector<std::int64_t>* carried_floors(const KnownBounds::LayerChoice& node) const;
  template <class Visit>
  void each_shard(const Configuration& b, const Visit& visit) const;
  template <class Bound>
  bool all_slower(Configuration c, const MemoryTable& t, const std::vector<char>& fits, const Bound& bound, Expansion& e) const;
  void expand_shard(const Configuration& s, const std::vector<Overlap>& overlaps, const MemoryTable& t, Workspace& w,
                    std::vector<std::int32_t>& slower, Expansion& e) const;
  [[nodiscard]] bool narrower(const Strategy& s, const std::vector<std::int32_t>& slower) const;
  void expand_overlap(const Configuration& o, const MemoryTable& t, const std::vector<char>& fits, Workspace& w,
                      Expansion& e) const;
  [[nodiscard]] std::vector<char> fitting_choices(const MemoryTable& t, const Strategy& s, const Workspace& w) const;
  /// Returns the number of configurations below a schedule choice.
  [[nodiscard]] double leaves_below(const Configuration& b) const { return frame_.space.leaves_of_schedule(b); }

  const SearchFrame& frame_;
};

}  // namespace espalier::search
