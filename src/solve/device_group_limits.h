// SPDX-License-Identifier: Apache-2.0
// Derives consequences of a limit on the bound for incomplete plans. Internal to solve/device_group_chains.h.
//
// Let T be the limit less the least end of a first stage. X_0 ≤ T is then necessary, and with it w ≤ T/m for every
// stage: the *cap*.
//
// Stages are counted from the end. With q stages behind it, a stage keeps min(m, q + 1) micro-batches, so memory is
// exact without the total number of stages. (With more than `depth` stages behind, only the memory for `depth` is
// required.)
//
// Room: R(q, code) is the most layers, from the front, that stages of free units can hold with w ≤ cap when q stages
// are behind.
//     R(q, code) = max over shapes of reach_q(shape, R(q + 1, code − shape)),    R(q, 0) = 0.
// Here reach_q(shape, a) is the furthest end of a stage that begins with layer a or before (StageRanges). The deepest
// level that the table has room for covers all beyond. With few codes it uses the same equation, otherwise Σ_kind
// (free units)·(most layers per unit of any stage).
//
// Least work: units get prices λ_kind ≥ 0 (nanoseconds per unit). N_λ(q, a, kind) is the least Σ (w + d + r +
// λ·units) of a chain of stages within their ranges over layers [0, a), with q stages behind, the next of that kind.
// It is a dynamic program over a and q alone. A chain of at most `free` units costs at least N_λ − Σ λ·free. This is
// Lagrange's relaxation and holds for any prices, so these may be found by any method (subgradient steps). They
// narrow the ranges, and narrower ranges raise them. In addition, device_group_counts.h gives the least work by exact
// counts of units, without the order of stages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "solve/device_group_counts.h"
#include "solve/device_group_prices.h"
#include "solve/device_group_tables.h"

namespace espalier::solve::device_groups {

class StageCountLimits {
 public:
  /// Returns nullopt when no plan with `count` stages has a bound of at most `limit`. `prices` is the starting point
  /// and receives the final prices. Without `rooms`, it behaves as if there were too many counts of units for the
  /// table.
  static std::optional<StageCountLimits> make(const StageTables& tables, StageCount count, std::int64_t limit,
                                              std::vector<std::int64_t>& prices, bool rooms);

  /// Returns R.
  [[nodiscard]] std::int32_t room(std::int32_t behind, std::int64_t code) const {
    if (room_.empty()) return tables_->layers();
    const std::int32_t level = std::min(behind, room_depth_);
    return room_[static_cast<std::size_t>(level * tables_->codes() + code)];
  }
  [[nodiscard]] const StageCount& count() const { return count_; }
  [[nodiscard]] const StageRanges& ranges() const { return ranges_; }
  [[nodiscard]] const std::vector<PricedChains>& prices() const { return prices_; }
  /// Returns the least Σ (w + d + r) of layers [0, a) with `behind` stages behind, the first of them of `kind`.
  /// `worth` holds Σ λ·free units for each of prices().
  [[nodiscard]] std::int64_t least_work(std::int32_t behind, std::int32_t a, std::int32_t kind,
                                        const std::vector<std::int64_t>& worth) const {
    std::int64_t least = 0;
    for (std::size_t i = 0; i < prices_.size(); ++i) least = std::max(least, prices_[i].least(behind, a, kind) - worth[i]);
    return least;
  }
  /// Returns the least work by counts of units, with everything that the bound adds to the front; requires
  /// look_before.
  [[nodiscard]] std::vector<std::int64_t> counted_work(std::int64_t code) const { return counts_->before(code); }
  void look_before() { counts_->look_before(ranges_, count_); }

 private:
  StageCountLimits(const StageTables& tables, StageCount count, std::int64_t limit)
      : tables_(&tables), count_(count), ranges_(tables, count, limit) {}
  bool narrow(std::int64_t left, PricedChains priced);
  void fill_room();
  void fill_room(std::int32_t behind);
  void fill_deepest_room();
  void fill_deepest_room(const std::vector<std::int16_t>& reach);
  [[nodiscard]] std::vector<std::int16_t> reach(std::int32_t behind) const;

  const StageTables* tables_;
  StageCount count_;
  StageRanges ranges_;
  std::int32_t room_depth_ = 0;
  std::vector<std::int16_t> room_;  ///< [stages behind][code]; empty: too many codes
  std::vector<PricedChains> prices_;
  std::optional<CountedWork> counts_;
};

}  // namespace espalier::solve::device_groups
