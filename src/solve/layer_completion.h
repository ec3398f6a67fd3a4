// SPDX-License-Identifier: Apache-2.0
// What the layers that a label does not hold yet cost at least, and how often an item must be chosen. Internal to the
// layer search.
//
// A label of memory M in layout a, with the layers R still to come in front of it, costs in the end at least, for every
// λ ≥ 0,
//     cost + min( Σ_R v_l(λ) + (least transition into a from another layout),  Σ_R v_l(λ) with items of layout a alone
//     ) − λ·s
//     s = capacity − M − Σ_R m_least(l);   s < 0: it cannot fit.
// Forced copies: a choice below the limit that uses item o in only k of the n layers of a run costs at least
//     LB(λ) + (n − k)·(v(λ) without o − v(λ)),    so  n − k < (limit − LB(λ)) / (v without o − v)   for every λ;
// n − k − 1 when the last layer, whose value is another, is one of them.
//
// When transitions are metric, the best choice has an order in which all copies of an item in a run stand together:
// between two groups of copies of o with the layers X between them, X after all copies is as good when what X reaches
// above its end is at most o's transient, and X before them otherwise (exchange of two neighbours that run one after
// the other: the larger reach above its end goes first); no transition is added. The same holds for twins, items that
// differ in their layout alone: of them one is enough. So the forced copies of twins are placed as one block of either,
// and the search is about the few layers that are free.
#pragma once

#include <cstdint>
#include <vector>

#include "solve/layer_bound.h"
#include "solve/layer_labels.h"

namespace espalier::solve {

/// The choices that are looked for.
struct Scope {
  double limit = 0;     ///< those that cost less
  double way = 0;       ///< no other matters than those whose transitions cost at least this
  bool metric = false;  ///< is_metric of the chain
};

/// Copies of one item of several that differ in their layout alone.
struct LayoutCopies {
  std::int32_t copies = 0;
  std::vector<std::int32_t> items;
};

/// A run as it is searched: blocks, and layers whose item is free.
struct RunPlan {
  std::int32_t type = 0, free = 0;
  std::vector<LayoutCopies> blocks;
};

/// Of the layers still to come: for each λ the least value, in any layout and within each.
struct Rest {
  std::vector<double> any;     ///< [λ]
  std::vector<double> within;  ///< [layout·λs + λ]
  std::vector<double> entry;   ///< [layout] least transition into the layout that is unavoidable unless all the rest
                               ///< stays in it
  std::int64_t least_memory = 0;
};

class Completion {
 public:
  Completion(const Chain& chain, const Multipliers& multipliers, const Scope& scope, double tick);
  /// No choice is below the limit.
  [[nodiscard]] bool hopeless() const { return hopeless_; }
  [[nodiscard]] const std::vector<RunPlan>& runs() const { return runs_; }
  /// Still to come: all runs before `run`, `free` layers of it and its blocks whose bit in `placed` is not set.
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
  std::vector<std::vector<std::int32_t>> best_;                   ///< [type][λ] item of the least value, the first of
                                                                  ///< twins
  std::vector<std::vector<std::int32_t>> twin_;                   ///< [type][item] the first of its twins
  std::vector<double> gap_;                                       ///< [λ] limit − way − LB(λ)
  std::vector<double> least_entry_;                               ///< [layout]
  std::vector<RunPlan> runs_;
  std::vector<Rest> before_;  ///< [run]
};

}  // namespace espalier::solve
