// SPDX-License-Identifier: Apache-2.0
// Lists the strategies that a layer may use on a stage of the layer-wise space. The strategies of one choice of (pp,
// samples) are priced for every layer kind. An option is dropped if another of the same activation layout is at least
// as good in every component.
//
// If embedding and head share a table (rule tied-table), both need one table layout. Their options are then reduced
// within each layout. A layout is dropped when another is at least as good in every option of both layers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cost/layer_share.h"
#include "cost/offload.h"
#include "cost/redistribution.h"
#include "plan/shared_table.h"
#include "search/cost_book.h"
#include "search/space.h"
#include "solve/layer_search.h"

namespace espalier::search {

/// Returns whether a strategy's backward passes must stay whole. Zero-bubble schedules run weight gradients apart,
/// which requires ZeRO ≤ 1 and no copies in passes.
inline bool whole_backward(const Strategy& s) { return s.shards_gradients() || cost::copies_in_passes(s.offload); }

/// Holds one strategy of one layer kind.
struct PricedOption {
  std::int32_t strategy = 0;  ///< index into OptionTable::strategies
  std::int32_t layout = 0;
  std::int32_t table = kAnyTable;  ///< layout index for an embedding or head that share a table
  cost::LayerShare share;
  static constexpr std::int32_t kAnyTable = -1;
};
inline constexpr std::int32_t kAnyTable = PricedOption::kAnyTable;

class OptionTable {
 public:
  /// `bases` are the choices of the layer group with this pp and these samples per micro-batch; only strategies that
  /// the class admits are used. `stop` is polled; once it returns true, the table is unusable.
  OptionTable(const Problem& problem, const Space& space, const CostBook& book, const std::vector<Configuration>& bases,
              const LayerClass& shared, const std::function<bool()>& stop = {});

  [[nodiscard]] const Strategy& strategy(std::int32_t i) const { return strategies_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::int32_t strategies() const { return static_cast<std::int32_t>(strategies_.size()); }
  [[nodiscard]] const std::vector<cost::LayerCost>& costs(std::int32_t i) const {
    return costs_[static_cast<std::size_t>(base_[static_cast<std::size_t>(i)])];
  }
  /// Finds the strategy equal to `s` except for overlap, with recomputation `how` of a layer.
  [[nodiscard]] std::optional<std::int32_t> find(Strategy s, const Recompute& how) const;
  /// Returns the remaining options of a kind.
  [[nodiscard]] const std::vector<PricedOption>& of_kind(std::int32_t kind) const {
    return kinds_[static_cast<std::size_t>(kind)];
  }
  /// Returns the dropped options. None is better in any component that adds up, but effects at the edges of chunks
  /// may favour them.
  [[nodiscard]] const std::vector<PricedOption>& dropped_of_kind(std::int32_t kind) const {
    return dropped_[static_cast<std::size_t>(kind)];
  }
  /// Returns the least nanoseconds of the forward pass of a kind under any option, dropped ones included.
  [[nodiscard]] double least_forward(std::int32_t kind) const { return least_forward_[static_cast<std::size_t>(kind)]; }
  /// Builds the program of consecutive layers (by kind), in nanoseconds. It holds the steady time, and as `sync` the
  /// update, λ of the cost of hidden step-end communication and (1 − λ) of the reductions. `zero_bubble` requires the
  /// backward pass in two parts and ZeRO ≤ 1. `table` is the layout of a shared table, one of those in `tables`.
  [[nodiscard]] solve::LayerProblem program(const std::vector<std::int32_t>& kinds, std::int32_t in_flight, double lambda,
                                            bool zero_bubble, std::int32_t table) const;
  /// Holds the range of the forward pass's share in the forward and backward time of a kind, under any option,
  /// dropped ones included.
  struct ForwardShare {
    double least = 1, most = 0;
  };
  [[nodiscard]] const ForwardShare& forward_share(std::size_t kind, bool zero_bubble) const {
    return (zero_bubble ? two_part_share_ : forward_share_)[kind];
  }
  /// Returns the layout of a shared table with the least total cost of embedding and head. The arguments hold the
  /// cost of each of their options (of_kind).
  [[nodiscard]] std::int32_t best_table(const std::vector<double>& embedding, const std::vector<double>& head) const;
  /// Returns whether rule tied-table allows two strategies, for layers a and b (0 … L−1), in one plan.
  [[nodiscard]] bool share_layout(std::int32_t strategy_a, std::int32_t strategy_b) const {
    return !tied_ || table_layout(strategy(strategy_a)) == table_layout(strategy(strategy_b));
  }
  /// Returns the index of a strategy's table layout; kAnyTable where layers share no table.
  [[nodiscard]] std::int32_t table_of(std::int32_t strategy) const;
  [[nodiscard]] bool tied() const { return tied_; }
  [[nodiscard]] double before_reduction() const { return priced_; }
  [[nodiscard]] double after_reduction() const { return kept_; }

 private:
  void price(const Problem& problem, const Space& space, const CostBook& book, const Configuration& base);
  void add(const CostBook& book, const Problem& problem, const Space& space, const Configuration& c, std::int32_t base);
  [[nodiscard]] bool allowed(const Problem& problem, const Space& space, Configuration own, const Strategy& s, bool block) const;
  void reduce(const std::function<bool()>& stop);
  void fill_transitions(const CostBook& book, const std::vector<double>& whole_bytes, const std::function<bool()>& stop);
  void note_shares();
  [[nodiscard]] bool table_kind(std::size_t kind) const {
    return tied_ && (static_cast<std::int32_t>(kind) == embedding_ || static_cast<std::int32_t>(kind) == head_);
  }
  [[nodiscard]] bool beats(const PricedOption& a, const PricedOption& b) const;
  [[nodiscard]] bool beats_table(std::int32_t a, std::int32_t b) const;
  void reduce_tables();

  const cost::CostContext* context_;
  LayerClass shared_;
  bool every_strategy_ = true;  ///< the engine restricts nothing
  std::vector<Strategy> strategies_;
  std::vector<std::int32_t> base_;  ///< index into costs_, by strategy
  std::vector<std::vector<cost::LayerCost>> costs_;
  std::vector<std::vector<PricedOption>> kinds_, dropped_;
  std::vector<cost::ActivationLayout> layouts_;
  std::vector<std::vector<double>> transition_;
  std::vector<double> least_forward_;
  std::vector<ForwardShare> forward_share_, two_part_share_;  ///< [kind]
  bool tied_ = false;                                         ///< embedding and head share a table
  std::int32_t embedding_ = 0, head_ = 0;                     ///< their layer kinds
  std::vector<TableLayout> tables_;
  std::int32_t stages_ = 1;
  double priced_ = 0, kept_ = 0;
};

}  // namespace espalier::search
