// SPDX-License-Identifier: Apache-2.0
// Which ranges of layers a stage may have in a plan within a limit. Internal to solve/device_group_chains.h.
//
// For q stages behind, a shape and a first layer a: the layers [a, e) with e in [first_end, last_end]; and the same
// told by e. What is outside is in no plan within the limit; what is inside may still not be in one. First by s + m·w +
// v + e ≤ limit alone. Then `narrow` asks, with V what the layers before cost at least, C what those behind do, and U
// both together (PricedChains, CountedWork), what
//     G(V, U) = max( V + m·w,  U + (m − k + 1)·w + (k − 1)·h·w,  U + q·C + (q + 1)·w + (m − 1 − q·k)·w  for both q )
// says, which G of device_groups.h is not below (trips of depth 0 and to the last stage), behind V, with max(f, b) ≥
// h·w (StageTables::longer_permille). The bound is at least
//     G(V, U) + u        X_0 and the least end of a first stage,
//     s + v + G(0, C) + max(e, β·V + u)    and    φ·V + G(0, C) + v + e,
// with φ and β the least shares of forward and backward ways: what comes before a first forward, and what follows a
// last backward. From `depth` stages behind on k is not known: then k = m, and the first two terms of G only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "solve/device_group_tables.h"

namespace espalier::solve::device_groups {

class CountedWork;
class PricedChains;

/// Empty when first > last.
struct Range {
  std::int16_t first = 0, last = -1;
};

/// Numbers of layers that some stage of a shape may have, and the least w of each by first layer.
struct Band {
  std::int32_t least = 1, most = 0;    ///< numbers of layers
  const std::int64_t* work = nullptr;  ///< [number − least][first layer], rows of layers + 1; kNever outside the ranges
};

class StageRanges {
 public:
  /// Of plans with `count` stages.
  StageRanges(const StageTables& tables, StageCount count, std::int64_t limit);

  void narrow(const std::vector<PricedChains>& prices, const CountedWork& counts);

  /// Ends of stages that begin with layer a, and first layers of stages that end before layer e.
  [[nodiscard]] Range ends(std::int32_t behind, std::size_t shape, std::int32_t a) const {
    return ends_[place(behind, shape, a)];
  }
  [[nodiscard]] Band band(std::int32_t behind, std::size_t shape) const {
    return bands_[static_cast<std::size_t>(std::min(behind, tables_->depth())) * tables_->shapes().size() + shape].band;
  }
  /// Numbers of stages behind that the tables tell apart and that there are.
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
