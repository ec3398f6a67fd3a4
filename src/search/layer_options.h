// SPDX-License-Identifier: Apache-2.0
// What one layer may do on a stage of the layer-wise space: the strategies of one choice of (pp, samples), priced for every layer kind
// and reduced to those that no other of the same activation layout equals or beats in every component.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cost/layered_timing.h"
#include "cost/redistribution.h"
#include "search/cost_book.h"
#include "search/layer_search.h"
#include "search/space.h"

namespace espalier::search {

/// One strategy of one layer kind.
struct PricedOption {
  std::int32_t strategy = 0;  ///< index into OptionTable::strategies
  std::int32_t layout = 0;
  cost::LayerShare share;
};

class OptionTable {
 public:
  /// `bases`: the choices of the layer group with this pp and these samples a micro-batch. `stop` is polled; once it is true the table is
  /// of no use.
  OptionTable(const Problem& problem, const Space& space, const CostBook& book, const std::vector<Configuration>& bases,
              const std::function<bool()>& stop = {});

  [[nodiscard]] const Strategy& strategy(std::int32_t i) const { return strategies_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] const std::vector<cost::LayerCost>& costs(std::int32_t i) const {
    return costs_[static_cast<std::size_t>(base_[static_cast<std::size_t>(i)])];
  }
  /// The strategy equal to `s` but for overlap, recomputed by `kind`.
  [[nodiscard]] std::optional<std::int32_t> find(Strategy s, RecomputeKind kind) const;
  /// Options of a kind that are left.
  [[nodiscard]] const std::vector<PricedOption>& of_kind(std::int32_t kind) const {
    return kinds_[static_cast<std::size_t>(kind)];
  }
  /// Nanoseconds of the forward pass of a kind, under any option: also of those that are not left.
  [[nodiscard]] double least_forward(std::int32_t kind) const { return least_forward_[static_cast<std::size_t>(kind)]; }
  /// The program of consecutive layers (by kind), in nanoseconds: steady time; update, λ of what hidden step-end communication costs
  /// and (1 − λ) of the reductions as `sync`.
  /// `zero_bubble`: backward in two parts, ZeRO ≤ 1.
  [[nodiscard]] LayerProblem program(const std::vector<std::int32_t>& kinds, std::int32_t in_flight, double lambda,
                                     bool zero_bubble) const;
  /// Of the forward and backward time of a kind the share of its forward pass, under any option: also of those that are not left.
  struct ForwardShare {
    double least = 1, most = 0;
  };
  [[nodiscard]] const ForwardShare& forward_share(std::size_t kind, bool zero_bubble) const {
    return (zero_bubble ? two_part_share_ : forward_share_)[kind];
  }
  [[nodiscard]] double before_reduction() const { return priced_; }
  [[nodiscard]] double after_reduction() const { return kept_; }

 private:
  void price(const Problem& problem, const Space& space, const CostBook& book, const Configuration& base);
  void add(const CostBook& book, const Problem& problem, const Configuration& c, std::int32_t base);
  void reduce(const std::function<bool()>& stop);
  void fill_transitions(const CostBook& book, const std::vector<double>& whole_bytes, const std::function<bool()>& stop);
  void note_shares();

  const cost::CostContext* context_;
  std::vector<Strategy> strategies_;
  std::vector<std::int32_t> base_;  ///< of each strategy
  std::vector<std::vector<cost::LayerCost>> costs_;
  std::vector<std::vector<PricedOption>> kinds_;
  std::vector<cost::ActivationLayout> layouts_;
  std::vector<std::vector<double>> transition_;
  std::vector<double> least_forward_;
  std::vector<ForwardShare> forward_share_, two_part_share_;  ///< [kind]
  std::int32_t stages_ = 1;
  double priced_ = 0, kept_ = 0;
};

}  // namespace espalier::search
