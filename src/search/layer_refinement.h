// SPDX-License-Identifier: Apache-2.0
// A layered plan made faster by single changes, judged in the simulator:
//
//   boundary   one boundary between two pipeline chunks moves by a layer, whatever the schedule; the layer keeps its
//              strategy, or
//              takes that of its new neighbour
//   layer      one layer takes another strategy of its (pp, samples); embedding and head together where they share a
//              table whose layout
//              changes with it
//   overlap    the plan's overlap switches change
//
// A change that makes the step shorter is taken at once. Changes are looked at in a fixed order (boundaries, overlaps,
// the layers where something changes beside them, all other layers), round and round, until none of them helps or the
// budget is spent: then those left untried are counted.
#pragma once

#include <cstdint>
#include <vector>

#include "search/group_judge.h"

namespace espalier::search {

class LayerRefinement {
 public:
  enum class Depth : std::uint8_t {
    boundaries,  ///< boundaries alone
    edges,       ///< and overlaps, and layers at the ends of their run of equal strategies
    all,         ///< and all other layers, then strategies that no sum of costs speaks for
                 ///< (OptionTable::dropped_of_kind)
  };
  /// `judge` keeps what is faster than its best.
  LayerRefinement(GroupJudge& judge, const Schedule& schedule, Assignment start, const Overlap& on);

  /// At most `budget` plans, and a few for boundaries when it is spent. What it returns speaks of the plan that it ends
  /// with.
  Refinement run(Depth depth, std::int64_t budget);
  [[nodiscard]] const Assignment& assignment() const { return now_; }

 private:
  struct Change {
    enum class Kind : std::uint8_t { boundary, overlap, layer };
    Kind kind = Kind::boundary;
    std::int32_t index = 0;     ///< boundary or layer
    std::int32_t value = 0;     ///< −1 or +1; index of the overlap; the new strategy
    bool adopts = false;        ///< of a boundary: the layer takes its new neighbour's strategy
    std::int32_t partner = -1;  ///< of a layer: the new strategy of the one that shares its table; −1: as it is
  };
  Refinement climb(Depth depth, std::int64_t budget);
  [[nodiscard]] std::vector<Change> changes(Depth depth) const;
  void add_boundaries(std::vector<Change>& out) const;
  void add_layer(std::int32_t layer, const std::vector<PricedOption>& options, std::vector<Change>& out) const;
  void add_with_partner(std::int32_t layer, const PricedOption& option, std::vector<Change>& out) const;
  [[nodiscard]] bool at_an_edge(std::int32_t layer) const;
  bool better(const Change& change);

  GroupJudge& judge_;
  Schedule schedule_;
  Assignment now_;
  Overlap on_;
  std::vector<Overlap> overlaps_;
};

}  // namespace espalier::search
