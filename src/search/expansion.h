// SPDX-License-Identifier: Apache-2.0
// Nodes of the tree of space.h, expanded: their children with bounds, less what the rules of pruning.h remove. Pure:
// what a node brings depends on the frame as it stands, so that nodes of one batch are expanded on any number of
// threads.
#pragma once

#include <cstdint>
#include <vector>

#include "search/frame.h"

namespace espalier::search {

/// What expanding one node brought.
struct Expansion {
  std::vector<Leaf> leaves;
  std::vector<std::int64_t> bounds;   ///< of all schedule choices of a layer choice, in their order; leaves name their
                                      ///< place as
                                      ///< slot
  bool expanded = false;              ///< all its schedule choices were bounded
  std::int64_t floor_ns = INT64_MAX;  ///< of a schedule choice: nothing below it that fits takes less
  PruningState removed;
  std::int64_t bounded = 0;
};

class Expander {
 public:
  explicit Expander(const SearchFrame& frame) : frame_(frame) {}
  /// The schedule choices of a layer choice.
  Expansion schedules(const KnownBounds::LayerChoice& node, Workspace& w) const;
  /// The configurations below a schedule choice.
  Expansion configurations(const Leaf& node, Workspace& w) const;
  /// A few configurations below a schedule choice that may be good: for ZeRO 0 (one replica), 1 and 3 over all
  /// replicas, everything overlapped, the least recomputation that may fit.
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
  /// Configurations below a schedule choice.
  [[nodiscard]] double leaves_below(const Configuration& b) const { return frame_.space.leaves_of_schedule(b); }

  const SearchFrame& frame_;
};

}  // namespace espalier::search
