// SPDX-License-Identifier: Apache-2.0
// The least work of a plan by counts of units, whatever the order of its stages. Internal to
// solve/device_group_chains.h.
//
// A stage is of one of four sorts: it has the first layer of the model, the last one, both, or neither. c(shape, sort,
// n) is the least w that any stage of the shape and sort with n layers may have (StageRanges), whichever layers these
// are and however many stages are behind it, and, unless it has the last layer, the least way to any stage behind it.
// For each kind
//     B_kind(u, n, sorts) = least Σ c of stages on at most u units that have n layers together, those with the first
//     and the last layer among
//                           them as `sorts` says
// follows stage by stage; kinds add up, with layers and sorts divided among them. A plan within the limit is such a
// choice of stages, and its Σ (w + d + r) is not below what the choice costs. The counts of units are kept exactly,
// where prices (device_group_prices.h) allow a mixture of chains that only in the mean take what there is; the order of
// layers and the memory of each place are not.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "solve/device_group_ranges.h"
#include "solve/device_group_tables.h"

namespace espalier::solve::device_groups {

class CountedWork {
 public:
  /// Plans with `count` stages, which have layers in these ranges only.
  CountedWork(const StageTables& tables, const StageRanges& ranges, StageCount count);

  /// No plan has a smaller Σ (w + d + r); kNever or more where there is none.
  [[nodiscard]] std::int64_t whole() const { return whole_; }
  /// Σ (w + d + r) of a plan with a stage of the shape with layers [a, e), less w of that stage.
  [[nodiscard]] std::int64_t others(std::size_t shape, std::int32_t a, std::int32_t e) const {
    return others_[(shape * kSorts + sort_of(a, e)) * side_ + static_cast<std::size_t>(e - a)];
  }
  /// Makes `before` known, unless there are too many counts.
  void look_before(const StageRanges& ranges, StageCount count);
  /// Least Σ (w + d + r + v) of stages with layers [0, a) on free units, a < layers, with s and e of the first of them;
  /// kNever or more where there are none.
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
  /// Of two disjoint sets of kinds: both together.
  [[nodiscard]] Row both(const Row& a, const Row& b, std::size_t sorts) const;
  void fill_others();

  /// Of kinds [first, end) each number of free units; of all of them one number.
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
  std::vector<std::int64_t> way_;        ///< from each kind to any other and back, at least
  std::vector<std::vector<Row>> kinds_;  ///< B: [kind][units]
  std::vector<std::int64_t> others_;     ///< [shape][sort][n]
  std::vector<Group> before_;            ///< two; empty: not known
};

}  // namespace espalier::solve::device_groups
