// SPDX-License-Identifier: Apache-2.0
// Computes N_λ of device_group_limits.h: the least work of the stages in front, when units have a price. Internal to
// solve/device_group_chains.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "solve/device_group_ranges.h"
#include "solve/device_group_tables.h"

namespace espalier::solve::device_groups {

class PricedChains {
 public:
  /// Covers plans with `count` stages, which have layers in these ranges only.
  PricedChains(const StageTables& tables, const StageRanges& ranges, StageCount count, const std::vector<std::int64_t>& prices);
  /// Fills least_behind.
  void look_behind(const StageRanges& ranges);

  [[nodiscard]] const std::vector<std::int64_t>& of_unit() const { return of_unit_; }
  /// Returns N_λ; kNever or more where there is no chain.
  [[nodiscard]] std::int64_t least(std::int32_t behind, std::int32_t a, std::int32_t kind) const {
    return least_[static_cast<std::size_t>(cell(std::min(behind, tables_->depth()), kind, a))];
  }
  /// Returns the least work of the layers from e on, which `behind` stages have, behind a stage of that kind.
  [[nodiscard]] std::int64_t least_behind(std::int32_t behind, std::int32_t e, std::int32_t kind) const {
    return least_behind_[static_cast<std::size_t>(cell(std::min(behind, tables_->depth()), kind, e))];
  }
  /// Returns a lower bound of Σ (w + d + r) of all plans; kNever when there is none.
  [[nodiscard]] std::int64_t whole() const { return whole_; }
  /// Returns the units of each kind that the cheapest chain takes, less the available ones.
  [[nodiscard]] std::vector<double> excess(const StageRanges& ranges) const;

 private:
  [[nodiscard]] std::int32_t cell(std::int32_t behind, std::int32_t kind, std::int32_t a) const {
    return (behind * tables_->kinds() + kind) * (tables_->layers() + 1) + a;
  }
  [[nodiscard]] bool may_end(std::int32_t behind) const;
  [[nodiscard]] std::int64_t way(std::int32_t kind, std::int32_t other) const {
    return tables_->send(kind, other) + tables_->send(other, kind);
  }
  void fill(const StageRanges& ranges, std::int32_t behind);
  void add_stage(const StageRanges& ranges, std::int32_t behind, std::size_t shape);
  void add_stage_from(const StageRanges& ranges, std::int32_t behind, std::size_t shape, std::int32_t a);
  void reach(std::int32_t behind, std::int32_t begin, std::int32_t end);
  void look_behind(const StageRanges& ranges, std::int32_t behind, std::int32_t rest, std::size_t shape);
  void look_behind_from(const StageRanges& ranges, std::int32_t e);
  [[nodiscard]] std::int32_t last_kind() const;

  const StageTables* tables_;
  StageCount count_;
  std::int64_t whole_ = kNever;
  std::vector<std::int64_t> of_unit_;
  /// [behind][kind][e] is the cheapest chain over [0, e) whose last stage is of the kind.
  std::vector<std::int64_t> ending_;
  std::vector<std::int64_t> least_;         ///< [behind][kind of the next][a]
  std::vector<std::int64_t> least_behind_;  ///< [behind][kind of the one before][e]
};

/// Searches prices whose `whole` is high by subgradient steps towards `target`, starting at `begin`; returns the
/// best. Stops once above the target.
PricedChains raised_prices(const StageTables& tables, const StageRanges& ranges, StageCount count, std::int64_t target,
                           const std::vector<std::int64_t>& begin);

}  // namespace espalier::solve::device_groups
