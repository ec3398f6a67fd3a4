// SPDX-License-Identifier: Apache-2.0
// What a limit on the bound says about plans that are not yet complete. Internal to solve/device_groups.h.
//
// Let T be the limit less the least end of a first stage, so that X_0 ≤ T is needed. Let S be a value that Σ (w + d + r) of no such
// plan is below, and K the most micro-batches that any stage keeps. No stage of a plan within the limit has more than
//     w ≤ min( T/m, 2·(T − S)/(2m − K − 1) ),
// the *cap*. The first is m·w ≤ G ≤ X_0. The second: V_<i + G_i ≤ X_0, where V_<i = Σ_{j<i} (w + d + r), with the second line of G_i
// and max(f, b) ≥ w/2 gives S + (m − k)·w + (k − 1)·w/2 ≤ T.
//
// Room: the most layers, from the front, that stages of free units can hold with w ≤ cap, by dynamic programming over the counts of
// free units. Memory is relaxed: any stage but the last keeps at least two micro-batches, and no more is asked.
//
// Least work: units get prices λ_kind ≥ 0 (nanoseconds a unit). N_λ(a, kind) = least Σ (w + d + r + λ·units) of a chain of stages with
// w ≤ cap over layers [0, a) before a stage of that kind, by dynamic programming over a alone. A chain of at most `free` units costs
// at least N_λ − Σ λ·free: Lagrange's relaxation, for any prices, so that these may be found by any method (subgradient steps).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "solve/device_group_tables.h"

namespace espalier::solve::device_groups {

/// Prices of units, and what they say about the layers before a stage.
struct Prices {
  std::vector<std::int64_t> of_unit;  ///< [kind]
  std::vector<std::int64_t> least;    ///< [a·kinds + kind] N_λ
  std::int64_t whole = 0;             ///< no plan has a smaller Σ (w + d + r)
};

/// Tables of more codes than this are not made; there is then room for everything.
inline constexpr std::int64_t kMostCodes = 4'000'000;

class Limits {
 public:
  /// Nothing when no plan has a bound of at most `limit`. `prices`: where to begin; becomes where it ended.
  static std::optional<Limits> make(const StageTables& tables, std::int64_t limit, std::vector<std::int64_t>& prices);

  [[nodiscard]] std::int64_t cap() const { return cap_; }
  [[nodiscard]] std::int32_t room(std::int64_t code) const {
    return room_.empty() ? tables_->layers() : room_[static_cast<std::size_t>(code)];
  }
  [[nodiscard]] const std::vector<Prices>& prices() const { return prices_; }
  /// Least Σ (w + d + r) of layers [0, a) before a stage of `kind`; `worth`: Σ λ·free units, one for each of prices().
  [[nodiscard]] std::int64_t least_work(std::int32_t a, std::int32_t kind, const std::vector<std::int64_t>& worth) const {
    std::int64_t least = 0;
    for (std::size_t i = 0; i < prices_.size(); ++i)
      least = std::max(least, prices_[i].least[static_cast<std::size_t>(a) * kinds_ + static_cast<std::size_t>(kind)] - worth[i]);
    return least;
  }

 private:
  explicit Limits(const StageTables& tables) : tables_(&tables), kinds_(tables.units().size()) {}
  void fill_room();
  [[nodiscard]] bool whole_fits() const;

  const StageTables* tables_;
  std::size_t kinds_;
  std::int64_t cap_ = 0;
  std::vector<std::int16_t> room_;  ///< [code]
  std::vector<Prices> prices_;
};

}  // namespace espalier::solve::device_groups
