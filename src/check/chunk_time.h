// SPDX-License-Identifier: Apache-2.0
// Bounds the seconds of a program's instructions from one side (layer_time.h): passes, messages, collectives, update.
#pragma once

#include <cstdint>
#include <vector>

#include "check/network_time.h"
#include "check/view.h"
#include "plan/program.h"

namespace espalier::check {

struct ChunkTime {
  double forward = 0, backward = 0, backward_input = 0, backward_weight = 0;
  double message = 0;                ///< message into this chunk, or its gradient back
  double reduction = 0, gather = 0;  ///< one of `buckets` buckets
  std::int32_t layers = 0;
};

struct StageUpdateTime {
  double update = 0, shared_table = 0;
};

struct PlanTime {
  std::vector<ChunkTime> chunks;
  std::vector<StageUpdateTime> stages;
};

/// Returns the times of all chunks and stages. `buckets` holds the number of buckets of each pipeline chunk's
/// gradients and parameters.
PlanTime plan_time(const View& view, const std::vector<std::int32_t>& buckets, End end);

}  // namespace espalier::check
