// SPDX-License-Identifier: Apache-2.0
// Finds plans within a limit, stage by stage from the last to the first. Internal to solve/device_group_chains.h.
//
// A label represents the stages of a plan from some stage on. It has their number, the free units, the first layer,
// the kind and port of the foremost stage, and its Tail. The cost of the stages in front of a label depends on these
// alone. It grows with each figure of the tail and with the message times of the port. So if labels are equal in the
// rest, one that is no better in any of these is dropped without loss. For each range of layers, options of a shape
// that another beats are dropped in the same way, since of memory it only matters whether they fit. The number of
// stages is known, and with it the micro-batches in flight of the next stage in front, so memory is exact. A label
// ends when the limits (device_group_limits.h) show that no plan within the limit contains it. Then there is too
// little room, or too much remaining work.
//
// Where that takes too many labels, nearly equal ones are *merged* (device_group_level.h). A merged label is no worse
// than any plan that it represents, so the limits that a pass proves remain valid. Plans are returned with their true
// bounds, but some are missed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "solve/device_group_fronts.h"
#include "solve/device_group_limits.h"
#include "solve/device_group_tables.h"

namespace espalier::solve::device_groups {

struct PassLimits {
  std::int64_t limit = 0;   ///< bounds above it are ignored
  std::int64_t slack = 0;   ///< permille: once a plan is found, the limit falls to its bound plus this much
  std::int64_t states = 0;  ///< limit on labels in all; beyond it, the pass ends unfinished
  /// Limits the labels kept for each number of stages to those with the least X + remaining work; 0: all.
  std::size_t width = 0;
  /// Sets by how many millionths of the limit a label may be worse and still represent another, whose better figures
  /// it then takes. 0: no label represents another.
  std::int64_t merged = 0;
  const std::function<bool()>* stop = nullptr;  ///< true: the pass ends unfinished
};

struct PassResult {
  bool complete = true;  ///< nothing was cut: `plans` has all plans within the last limit that no other beats
  /// For a complete pass, holds a lower bound of all plans that are not among `plans`.
  std::int64_t none_below = 0;
  std::vector<std::vector<GroupedStage>> plans;
};

PassResult search_labels(const StageTables& tables, StageFronts& fronts, const StageCountLimits& limits, const PassLimits& pass,
                         DeviceGroupsCounters& counters);

}  // namespace espalier::solve::device_groups
