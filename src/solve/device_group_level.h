// SPDX-License-Identifier: Apache-2.0
// Holds the labels of one number of stages. Internal to solve/device_group_chains.h; device_group_labels.h defines
// labels.
//
// Labels with the same free units, first layer and kind of the foremost stage are chained. A label is left out if
// another is no worse in any figure. With `merge`, a label that is worse by no more than an allowance in each figure
// represents both. It takes the better of both in each figure. It then belongs to no plan, but is no worse than
// either, so extensions of it bound extensions of both. The allowance of a figure is a time divided by the largest
// factor of the figure in the bound of a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "solve/device_group_tables.h"

namespace espalier::solve::device_groups {

struct ChainLabel {
  Tail tail;
  std::int64_t code = 0;     ///< free units
  std::int64_t least = 0;    ///< lower bound of the whole plan, by X
  std::int64_t soonest = 0;  ///< lower bound of the whole plan, by Y and Z
  std::int32_t parent = -1, next = -1;
  std::int16_t option = -1, first = 0, kind = -1, port = -1;  ///< first: layer
  bool beaten = false;
};

class Level {
 public:
  explicit Level(const StageTables& tables) : tables_(tables), layers_(tables.layers()), kinds_(tables.kinds()) { clear(); }

  void clear();
  [[nodiscard]] std::size_t alive() const { return alive_; }
  /// From now on a label represents others if it is at most `time` worse; `front` gives the place of stages in front
  /// of them.
  void merge(std::int64_t time, const InFlight& front);
  /// Returns false when another is no worse, or represents it.
  bool insert(const ChainLabel& label);
  /// Returns the remaining labels in the order of insertion.
  [[nodiscard]] std::vector<ChainLabel> take();

 private:
  [[nodiscard]] bool no_worse(const ChainLabel& a, const ChainLabel& b) const;
  bool stands_for(ChainLabel& a, const ChainLabel& b) const;
  [[nodiscard]] std::int64_t key(const ChainLabel& label) const {
    return (label.code * (layers_ + 1) + label.first) * kinds_ + label.kind;
  }
  [[nodiscard]] std::size_t place(const ChainLabel& label) const;
  void grow();

  const StageTables& tables_;
  std::int64_t layers_, kinds_;
  std::size_t alive_ = 0;
  std::optional<Tail> allowance_;
  std::vector<ChainLabel> labels_;
  std::vector<std::int32_t> heads_;  ///< first label of each chain
};

}  // namespace espalier::solve::device_groups
