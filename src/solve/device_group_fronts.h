// SPDX-License-Identifier: Apache-2.0
// Selects the options of a shape that are worth putting in front of a partial plan. Internal to
// solve/device_group_chains.h.
//
// They depend on the run of layers and on which options fit, and thus on the number of micro-batches in flight. They
// are therefore computed once for all searches of a problem, on first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "solve/device_group_tables.h"

namespace espalier::solve::device_groups {

/// Holds a stage that may precede labels, without its sends.
struct Front {
  StageTime time;
  std::int16_t option = -1, port = -1;
  [[nodiscard]] std::int64_t work() const { return time.forward + time.backward; }
};

class StageFronts {
 public:
  explicit StageFronts(const StageTables& tables) : tables_(tables) {}
  /// Returns the options of the shape that hold the run with k micro-batches in flight and that no other beats, by w.
  /// The result is valid until the next call.
  [[nodiscard]] std::span<const Front> of(std::int64_t k, std::size_t shape, std::int32_t run);

 private:
  struct Place {
    std::int32_t begin = -1, end = -1;
  };
  Place find(std::int64_t k, std::size_t shape, std::int32_t run);
  Place add(std::int64_t k, const Shape& shape, std::int32_t run);

  const StageTables& tables_;
  std::vector<std::vector<Place>> places_;  ///< [k − 1][shape · runs + run]
  std::vector<Front> fronts_;
};

}  // namespace espalier::solve::device_groups
