// SPDX-License-Identifier: Apache-2.0
// Groups runs of layers by their types. Internal to solve/device_group_chains.h.
//
// The time and memory of a stage with layers [a, e) depend on the types of these layers, in order, not on their
// position. Ranges with the same types in the same order are one *run*. A model of L equal layers with another one at
// each end has L²/2 ranges, but fewer than 4·L runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace espalier::solve::device_groups {

class LayerRuns {
 public:
  explicit LayerRuns(const std::vector<std::int32_t>& types);

  /// Returns the run of layers [a, e), a < e.
  [[nodiscard]] std::int32_t of(std::int32_t a, std::int32_t e) const {
    return of_[static_cast<std::size_t>(a) * side_ + static_cast<std::size_t>(e)];
  }
  /// Holds one run; runs with fewer layers of the same beginning come first.
  struct Run {
    std::int32_t begin = 0, end = 0;  ///< one of its places
    std::int32_t type = 0;            ///< type of its last layer
    std::int32_t shorter = -1;        ///< the run without its last layer; −1: it has one layer
  };
  [[nodiscard]] const std::vector<Run>& all() const { return runs_; }
  [[nodiscard]] std::size_t count() const { return runs_.size(); }

 private:
  std::size_t side_;
  std::vector<std::int32_t> of_;
  std::vector<Run> runs_;
};

}  // namespace espalier::solve::device_groups
