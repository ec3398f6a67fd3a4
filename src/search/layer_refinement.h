// SPDX-License-Identifier: Apache-2.0
// Makes a layered plan faster by single changes that the simulator judges. Three kinds of changes exist:
//
// - boundary: one boundary between two pipeline chunks moves by a layer, whatever the schedule. The layer keeps its
//   strategy, or takes that of its new neighbour.
// - layer: one layer takes another strategy of its (pp, samples). Embedding and head change together where they share
//   a table whose layout changes as well.
// - overlap: the plan's overlap switches change.
//
// A change that makes the step shorter is applied at once. Changes are tried in a fixed order: boundaries, overlaps,
// the layers next to a change of strategy, all other layers. Rounds repeat until no change helps or the budget is
// spent; the changes left untried are then counted.
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
    all,         ///< and all other layers, then strategies that no sum of costs favours (OptionTable::dropped_of_kind)
  };
  /// `judge` keeps plans that are faster than its best.
  LayerRefinement(GroupJudge& judge, const Schedule& schedule, Assignment start, const Overlap& on);

  /// Simulates at most `budget` plans, and a few more for boundaries once it is spent. The result describes the plan
  /// that the refinement ends with.
  Refinement run(Depth depth, std::int64_t budget);
  [[nodiscard]] const Assignment& assignment() const { return now_; }

 private:
  struct Change {
    enum class Kind : std::uint8_t { boundary, overlap, layer };
    Kind kind = Kind::boundary;
    std::int32_t index = 0;     ///< boundary or layer
    std::int32_t value = 0;     ///< −1 or +1; index of the overlap; the new strategy
    bool adopts = false;        ///< for a boundary: the layer takes its new neighbour's strategy
    std::int32_t partner = -1;  ///< for a layer: new strategy of the layer that shares its table; −1: unchanged
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
