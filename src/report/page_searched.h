// SPDX-License-Identifier: Apache-2.0
// Lists the simulated configurations as points of time and memory, and their Pareto front: the points that no other
// beats in one without losing in the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/planner.h"

namespace espalier::report {

/// Limits the points. Beyond it, the fastest and those of the front are kept.
inline constexpr std::size_t kMostPoints = 1200;

struct SearchedPoint {
  std::string label;
  std::string what;  ///< "answer", "baseline", "searched"
  std::int64_t iteration_ns = 0, peak_memory_bytes = 0;
  bool fits = true, front = false;
  std::vector<std::string> dimensions;  ///< values in the order of kPointDimensions; empty: not a uniform plan
};

/// Returns the answer first, then timed baselines, then searched points. `front` is computed among those that fit.
std::vector<SearchedPoint> searched_points(const PlannerResult& result);
void write_searched(base::JsonWriter& w, const PlannerResult& result);

}  // namespace espalier::report
