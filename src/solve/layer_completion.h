// SPDX-License-Identifier: Apache-2.0
// Bounds the cost of the layers that a label does not hold yet, and counts how often an item must be chosen. Internal
// to the layer search.
//
// A label has memory M and layout a, and the layers R still precede it. For every λ ≥ 0 its final cost is at least
//     cost − λ·s + min( Σ_R v_l(λ) + (least transition into a from another layout),
//                       Σ_R v_l(λ) with items of layout a alone ),
//     s = capacity − M − Σ_R m_least(l);   s < 0: it cannot fit.
// Forced copies: a choice below the limit may use item o in only k of the n layers of a run. It then costs at least
//     LB(λ) + (n − k)·(v(λ) without o − v(λ)),    so  n − k < (limit − LB(λ)) / (v without o − v)   for every λ;
// It is n − k − 1 when the last layer, whose value differs, is one of them.
//
// When transitions are metric, the best choice has an order in which all copies of an item in a run are adjacent. Let
// X be the layers between two groups of copies of o. X after all copies is as good when the reach of X above its end
// is at most o's transient, and X before them otherwise. (This exchanges two neighbours that run one after the other:
// the larger reach above its end goes first.) No transition is added. Twins are items that differ in their layout
// alone; they behave in the same way, and one of them is enough. So the forced copies of twins are placed as one
// block of either. The search then covers only the few free layers.
#pragma once

#include <cstdint>
#include <vector>

#include "solve/layer_bound.h"
#include "solve/layer_labels.h"

namespace espalier::solve {

/// Selects the choices that the search covers.
struct Scope {
  double limit = 0;     ///< only choices that cost less matter
  double way = 0;       ///< only choices whose transitions cost at least this matter
  bool metric = false;  ///< is_metric of the chain
};

/// Holds copies of one of several items that differ in their layout alone.
struct LayoutCopies {
  std::int32_t copies = 0;
  std::vector<std::int32_t> items;
};

/// Describes a run for the search: blocks, and layers whose item is free.
struct RunPlan {
  std::int32_t type = 0, free = 0;
  std::vector<LayoutCopies> blocks;
};

/// Holds the least values of the remaining layers for each λ, in any layout and within each.
struct Rest {
  std::vector<double> any;     ///< [λ]
  std::vector<double> within;  ///< [layout·λs + λ]
  /// [layout] is the least transition into the layout that is unavoidable unless all the rest stays in it.
  std::vector<double> entry;
  std::int64_t least_memory = 0;
};

class Completion {
 public:
  Completion(const Chain& chain, const Multipliers& multipliers, const Scope& scope, double tick);
  /// Returns whether no choice is below the limit.
  [[nodiscard]] bool hopeless() const { return hopeless_; }
  [[nodiscard]] const std::vector<RunPlan>& runs() const { return runs_; }
  /// Returns the values of the remaining layers: all runs before `run`, `free` layers of it and its blocks whose bit
  /// in `placed` is not set.
  [[nodiscard]] Rest rest(std::size_t run, std::int32_t free, std::uint32_t placed) const;
  [[nodiscard]] bool worthwhile(const LayerLabel& label, const Rest& rest) const;

 private:
  void tabulate(std::size_t type);
  void plan_run(const TypeRun& run);
  void add_blocks(RunPlan& plan, const std::vector<std::int32_t>& forced);
  void add(Rest& rest, std::size_t type, std::int32_t layers) const;
  void add_block(Rest& rest, const RunPlan& run, const LayoutCopies& block) const;

  const Chain& chain_;
  const Multipliers& multipliers_;
  Scope scope_;
  double tick_;
  bool hopeless_ = false;
  std::vector<std::vector<double>> any_, within_, without_best_;  ///< [type][λ], [type][layout·λs + λ], [type][λ]
  std::vector<std::vector<std::int32_t>> best_;                   ///< [type][λ] item of the least value, the first of twins
  std::vector<std::vector<std::int32_t>> twin_;                   ///< [type][item] the first of its twins
  std::vector<double> gap_;                                       ///< [λ] limit − way − LB(λ)
  std::vector<double> least_entry_;                               ///< [layout]
  std::vector<RunPlan> runs_;
  std::vector<Rest> before_;  ///< [run]
};

}  // namespace espalier::solve
