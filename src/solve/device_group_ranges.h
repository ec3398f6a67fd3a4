// SPDX-License-Identifier: Apache-2.0
// Determines which ranges of layers a stage may have in a plan within a limit. Internal to
// solve/device_group_chains.h.
//
// For q stages behind, a shape and a first layer a, the possible layers are [a, e) with e in [first_end, last_end]. A
// second table is indexed by e. No plan within the limit has a range outside; a range inside may still be in no plan.
// The first rule is s + m·w + v + e ≤ limit alone. Then `narrow` uses V, the least cost of the layers before, C, that
// of the layers behind, and U, that of both together (PricedChains, CountedWork). It computes
//     G(V, U) = max( V + m·w,  U + (m − k + 1)·w + (k − 1)·h·w,  U + q·C + (q + 1)·w + (m − 1 − q·k)·w  for both q )
// This is a lower bound of G of device_group_chains.h (trips of depth 0 and to the last stage) behind V, where max(f,
// b) ≥ h·w (StageTables::longer_permille). The bound is at least each of
//     G(V, U) + u        X_0 and the least end of a first stage,
//     s + v + G(0, C) + max(e, β·V + u)    and    φ·V + G(0, C) + v + e,
// Here φ and β are the least shares of forward and backward in both ways: the time before a first forward pass, and
// the time after a last backward pass. With more than `depth` stages behind, k is unknown. Then k = m, and only the
// first two terms of G apply.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "solve/device_group_tables.h"

namespace espalier::solve::device_groups {

class CountedWork;
class PricedChains;

/// Is empty when first > last.
struct Range {
  std::int16_t first = 0, last = -1;
};

/// Holds the numbers of layers that some stage of a shape may have, and the least w of each by first layer.
struct Band {
  std::int32_t least = 1, most = 0;  ///< numbers of layers
  /// Holds [number − least][first layer], in rows of layers + 1; it is kNever outside the ranges.
  const std::int64_t* work = nullptr;
};

class StageRanges {
 public:
  /// Computes the ranges of plans with `count` stages.
  StageRanges(const StageTables& tables, StageCount count, std::int64_t limit);

  void narrow(const std::vector<PricedChains>& prices, const CountedWork& counts);

  /// Returns the ends of stages that begin with layer a; `begins` returns the first layers of stages that end before
  /// layer e.
  [[nodiscard]] Range ends(std::int32_t behind, std::size_t shape, std::int32_t a) const {
    return ends_[place(behind, shape, a)];
  }
  [[nodiscard]] Band band(std::int32_t behind, std::size_t shape) const {
    return bands_[static_cast<std::size_t>(std::min(behind, tables_->depth())) * tables_->shapes().size() + shape].band;
  }
  /// Returns how many numbers of stages behind exist and are distinguished by the tables.
  [[nodiscard]] std::int32_t levels() const { return std::min(tables_->depth() + 1, count_.most); }
  [[nodiscard]] Range begins(std::int32_t behind, std::size_t shape, std::int32_t e) const {
    return begins_[place(behind, shape, e)];
  }

 private:
  [[nodiscard]] std::size_t place(std::int32_t behind, std::size_t shape, std::int32_t layer) const {
    const auto level = static_cast<std::size_t>(std::min(behind, tables_->depth()));
    return (level * tables_->shapes().size() + shape) * static_cast<std::size_t>(tables_->layers() + 1) +
           static_cast<std::size_t>(layer);
  }
  void fill_begins();
  void fill_bands();
  void fill_band(std::int32_t behind, std::size_t shape);

  struct OwnedBand {
    Band band;
    std::vector<std::int64_t> work;
  };

  const StageTables* tables_;
  StageCount count_;
  std::int64_t limit_;
  std::vector<Range> ends_, begins_;
  std::vector<OwnedBand> bands_;  ///< [behind][shape]
};

}  // namespace espalier::solve::device_groups
