// SPDX-License-Identifier: Apache-2.0
// Computes the least work of a plan by counts of units, for any order of its stages. Internal to
// solve/device_group_chains.h.
//
// A stage is of one of four sorts: it has the first layer of the model, the last one, both, or neither. The figure
// c(shape, sort, n) is the least w of any stage of the shape and sort with n layers (StageRanges). It covers all such
// layers and all numbers of stages behind. Unless the stage has the last layer, c includes the least send time to and
// from any stage behind it. A table of each kind is built stage by stage:
//     B_kind(u, n, sorts) = least Σ c of stages on at most u units with n layers together.
// Here `sorts` gives whether they have the first and the last layer. Kinds are then added up, with layers and sorts
// divided among them. A plan within the limit is such a choice of stages, and its Σ (w + d + r) is not below the cost
// of the choice. The counts of units are exact. Prices (device_group_prices.h) instead allow a mixture of chains that
// uses the available units only on average. The order of layers and the memory of each place are ignored.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "solve/device_group_ranges.h"
#include "solve/device_group_tables.h"

namespace espalier::solve::device_groups {

class CountedWork {
 public:
  /// Covers plans with `count` stages, which have layers in these ranges only.
  CountedWork(const StageTables& tables, const StageRanges& ranges, StageCount count);

  /// Returns a lower bound of Σ (w + d + r) of all plans; kNever or more where there is none.
  [[nodiscard]] std::int64_t whole() const { return whole_; }
  /// Returns the least Σ (w + d + r) of a plan with a stage of the shape with layers [a, e), without w of that stage.
  [[nodiscard]] std::int64_t others(std::size_t shape, std::int32_t a, std::int32_t e) const {
    return others_[(shape * kSorts + sort_of(a, e)) * side_ + static_cast<std::size_t>(e - a)];
  }
  /// Fills `before`, unless there are too many counts.
  void look_before(const StageRanges& ranges, StageCount count);
  /// Returns the least Σ (w + d + r + v) of stages with layers [0, a) on free units, a < layers, plus s and e of the
  /// first of them. It is kNever or more where there are none.
  [[nodiscard]] std::vector<std::int64_t> before(std::int64_t code) const;  // [a]

 private:
  static constexpr std::size_t kSorts = 4;  ///< bits: has the first layer, has the last one
  using Row = std::vector<std::int64_t>;    ///< [sorts][layers]

  [[nodiscard]] std::size_t sort_of(std::int32_t a, std::int32_t e) const {
    return (a == 0 ? 1U : 0U) + (e == tables_->layers() ? 2U : 0U);
  }
  [[nodiscard]] Row nothing() const;
  enum class Part { work, all };  ///< w of a stage; w + v, and s and e of the first one
  void fill_stages(const StageRanges& ranges, StageCount count, Part part);
  void fill_stages(const StageRanges& ranges, std::int32_t behind, std::size_t shape, StageCount count, Part part);
  [[nodiscard]] std::vector<Row> rows_of(std::int32_t kind) const;
  void add_stage(std::size_t shape, const Row& front, Row& out) const;
  /// Returns the row of two disjoint sets of kinds together.
  [[nodiscard]] Row both(const Row& a, const Row& b, std::size_t sorts) const;
  void fill_others();

  /// Encodes the numbers of free units of kinds [first, end) as one number.
  struct Group {
    std::int32_t first = 0, end = 0;
    std::int64_t stride = 1, counts = 1;  ///< number = code / stride % counts
    std::vector<Row> of;
  };
  [[nodiscard]] Group group_of(std::int32_t first, std::int32_t end) const;

  const StageTables* tables_;
  std::size_t side_;  ///< layers + 1
  std::int64_t whole_ = kNever;
  Row stages_;                           ///< c: [shape][sort][n]
  std::vector<std::int64_t> way_;        ///< least send time from each kind to any other and back
  std::vector<std::vector<Row>> kinds_;  ///< B: [kind][units]
  std::vector<std::int64_t> others_;     ///< [shape][sort][n]
  std::vector<Group> before_;            ///< two groups; empty: not filled
};

}  // namespace espalier::solve::device_groups
