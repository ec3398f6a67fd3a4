// SPDX-License-Identifier: Apache-2.0
// What one layer may do on a stage of the layer-wise space: the strategies of one choice of (pp, samples), priced for
// every layer kind and reduced to those that no other of the same activation layout equals or beats in every component.
//
// Where embedding and head share a table (rule tied-table) both need one table layout: their options are reduced within
// each layout, and a layout goes when another equals or beats it in every option of both layers.
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

/// Whether its backward passes are whole: zero-bubble schedules, which run weight gradients apart, need ZeRO ≤ 1 and no
/// copies in passes.
inline bool whole_backward(const Strategy& s) { return s.shards_gradients() || cost::copies_in_passes(s.offload); }

/// One strategy of one layer kind.
struct PricedOption {
  std::int32_t strategy = 0;  ///< index into OptionTable::strategies
  std::int32_t layout = 0;
  std::int32_t table = kAnyTable;  ///< of an embedding or head that share a table: index of its layout
  cost::LayerShare share;
  static constexpr std::int32_t kAnyTable = -1;
};
inline constexpr std::int32_t kAnyTable = PricedOption::kAnyTable;

class OptionTable {
 public:
  /// `bases`: the choices of the layer group with this pp and these samples a micro-batch; of their strategies those
  /// that the class admits. `stop` is polled; once it is true the table is of no use.
  OptionTable(const Problem& problem, const Space& space, const CostBook& book, const std::vector<Configuration>& bases,
              const LayerClass& shared, const std::function<bool()>& stop = {});

  [[nodiscard]] const Strategy& strategy(std::int32_t i) const { return strategies_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::int32_t strategies() const { return static_cast<std::int32_t>(strategies_.size()); }
  [[nodiscard]] const std::vector<cost::LayerCost>& costs(std::int32_t i) const {
    return costs_[static_cast<std::size_t>(base_[static_cast<std::size_t>(i)])];
  }
  /// The strategy equal to `s` but for overlap, recomputed by `kind`.
  [[nodiscard]] std::optional<std::int32_t> find(Strategy s, RecomputeKind kind) const;
  /// Options of a kind that are left.
  [[nodiscard]] const std::vector<PricedOption>& of_kind(std::int32_t kind) const {
    return kinds_[static_cast<std::size_t>(kind)];
  }
  /// Those that are not: no better in any component that adds up, but what happens at the edges of chunks may favour
  /// them.
  [[nodiscard]] const std::vector<PricedOption>& dropped_of_kind(std::int32_t kind) const {
    return dropped_[static_cast<std::size_t>(kind)];
  }
  /// Nanoseconds of the forward pass of a kind, under any option: also of those that are not left.
  [[nodiscard]] double least_forward(std::int32_t kind) const { return least_forward_[static_cast<std::size_t>(kind)]; }
  /// The program of consecutive layers (by kind), in nanoseconds: steady time; update, λ of what hidden step-end
  /// communication costs and (1 − λ) of the reductions as `sync`.
  /// `zero_bubble`: backward in two parts, ZeRO ≤ 1. `table`: the layout of a shared table, of those in `tables`.
  [[nodiscard]] solve::LayerProblem program(const std::vector<std::int32_t>& kinds, std::int32_t in_flight, double lambda,
                                            bool zero_bubble, std::int32_t table) const;
  /// Of the forward and backward time of a kind the share of its forward pass, under any option: also of those that are
  /// not left.
  struct ForwardShare {
    double least = 1, most = 0;
  };
  [[nodiscard]] const ForwardShare& forward_share(std::size_t kind, bool zero_bubble) const {
    return (zero_bubble ? two_part_share_ : forward_share_)[kind];
  }
  /// The layout of a shared table with the least sum of what embedding and head cost; given what each of their options
  /// (of_kind) costs.
  [[nodiscard]] std::int32_t best_table(const std::vector<double>& embedding, const std::vector<double>& head) const;
  /// Whether strategies of layers a and b (0 … L−1) may stand in one plan as far as rule tied-table goes.
  [[nodiscard]] bool share_layout(std::int32_t strategy_a, std::int32_t strategy_b) const {
    return !tied_ || table_layout(strategy(strategy_a)) == table_layout(strategy(strategy_b));
  }
  /// Index of a strategy's table layout; kAnyTable where layers share no table.
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
  std::vector<std::int32_t> base_;  ///< of each strategy
  std::vector<std::vector<cost::LayerCost>> costs_;
  std::vector<std::vector<PricedOption>> kinds_, dropped_;
  std::vector<cost::ActivationLayout> layouts_;
  std::vector<std::vector<double>> transition_;
  std::vector<double> least_forward_;
  std::vector<ForwardShare> forward_share_, two_part_share_;  ///< [kind]
  bool tied_ = false;                                         ///< embedding and head share a table
  std::int32_t embedding_ = 0, head_ = 0;                     ///< their kinds
  std::vector<TableLayout> tables_;
  std::int32_t stages_ = 1;
  double priced_ = 0, kept_ = 0;
};

}  // namespace espalier::search
