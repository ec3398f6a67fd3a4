// SPDX-License-Identifier: Apache-2.0
// Plans within a limit, stage by stage from the last to the first. Internal to solve/device_group_chains.h.
//
// A label stands for the stages of a plan from some stage on: how many they are, the free units, the first layer, the
// kind and port of the foremost stage, and its Tail. All that goes in front of a label depends on these alone and grows
// with each figure of the tail and with what messages of the port take, so of labels that are equal in the rest one
// that is no better in any of these is dropped without loss. So are, for each range of layers, options of a shape that
// another beats there: they fit or not. The number of stages is known, and with it the micro-batches in flight of the
// next stage in front: memory is exact. A label ends when the limits (device_group_limits.h) say that no plan within
// the limit has it: too little room, or too much work left.
//
// Where that takes too many labels, nearly equal ones are *merged* (device_group_level.h): a label is then no better
// than any plan that it stands for, and what a pass says of limits stays true; plans are found by their true bounds,
// some are missed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "solve/device_group_fronts.h"
#include "solve/device_group_limits.h"
#include "solve/device_group_tables.h"

namespace espalier::solve::device_groups {

struct PassLimits {
  std::int64_t limit = 0;   ///< bounds above it are of no interest
  std::int64_t slack = 0;   ///< permille: once a plan is found, the limit falls to its bound and this much more
  std::int64_t states = 0;  ///< labels in all; beyond, the pass ends unfinished
  std::size_t width = 0;    ///< labels of each number of stages; those with the least X + work left stay; 0: all
  /// Millionths of the limit by which a label may be worse and yet stand for another, which then lends it its better
  /// figures. 0: none does.
  std::int64_t merged = 0;
  const std::function<bool()>* stop = nullptr;  ///< true: the pass ends unfinished
};

struct PassResult {
  bool complete = true;  ///< nothing was cut: all plans within the last limit are there that no other beats
  /// Of a complete pass: no plan has a smaller bound, unless it is among `plans`.
  std::int64_t none_below = 0;
  std::vector<std::vector<GroupedStage>> plans;
};

PassResult search_labels(const StageTables& tables, StageFronts& fronts, const StageCountLimits& limits, const PassLimits& pass,
                         DeviceGroupsCounters& counters);

}  // namespace espalier::solve::device_groups
