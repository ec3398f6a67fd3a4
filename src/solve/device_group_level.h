// SPDX-License-Identifier: Apache-2.0
// The labels of one number of stages. Internal to solve/device_group_chains.h; what a label is says
// device_group_labels.h.
//
// Labels with the same free units, first layer and kind of the foremost stage are chained, and one that another is no
// worse than in all figures is left out. Where labels may stand for others (`merge`), one that is worse by no more than
// an allowance in each figure stays alone and takes of each figure the better one of both: it is then no plan's, but no
// worse than either, so that what grows from it bounds what grows from both. The allowance of a figure is a time over
// what the figure is multiplied with at most in the bound of a plan.
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
  std::int64_t least = 0;    ///< the bound of the whole plan is not below it, by X,
  std::int64_t soonest = 0;  ///< nor below this, by Y and Z
  std::int32_t parent = -1, next = -1;
  std::int16_t option = -1, first = 0, kind = -1, port = -1;  ///< first: layer
  bool beaten = false;
};

class Level {
 public:
  explicit Level(const StageTables& tables) : tables_(tables), layers_(tables.layers()), kinds_(tables.kinds()) { clear(); }

  void clear();
  [[nodiscard]] std::size_t alive() const { return alive_; }
  /// From now on labels that are no worse than others but for `time` stand for these; `front`: where stages in front of
  /// them will be.
  void merge(std::int64_t time, const InFlight& front);
  /// False when another is no worse, or stands for it.
  bool insert(const ChainLabel& label);
  /// Those that are left, in the order in which they came.
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
