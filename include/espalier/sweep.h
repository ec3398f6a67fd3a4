// SPDX-License-Identifier: Apache-2.0
// Plans one job over values of some of its settings: every combination, as a table, as JSON and as CSV.
//
//   espalier::report::Sweep sweep{{{"cluster.nodes", {"1", "2"}}, {"engine", {"megatron-core", "torchtitan"}}}, {}};
//   for (const auto& values : report::combinations(sweep.axes))     // the last axis changes fastest
//     sweep.points.push_back({values, plan_of_these(values)});
//   std::cout << to_text(sweep, 100);
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "espalier/planner.h"

namespace espalier::report {

/// Describes one setting that a sweep varies.
struct SweepAxis {
  std::string path;                 ///< setting of the job: "cluster.nodes"
  std::vector<std::string> values;  ///< as given
};

/// Holds one combination of values and its plan.
struct SweepPoint {
  std::vector<std::string> values;  ///< one for each axis
  Result<PlannerResult> result;     ///< or why there is no plan, which is a valid outcome of a sweep
};

/// Holds the axes of a sweep and all its points.
struct Sweep {
  std::vector<SweepAxis> axes;
  std::vector<SweepPoint> points;
};

/// Returns every combination of the axes' values; the last axis changes fastest.
std::vector<std::vector<std::string>> combinations(const std::vector<SweepAxis>& axes);

/// Returns text for a terminal, wrapped at `width` columns; 0 does not wrap.
std::string to_text(const Sweep& sweep, std::size_t width = 0);
/// Returns JSON of schema espalier.sweep/1.
std::string to_json(const Sweep& sweep, PlanSchema schema = PlanSchema::two);
/// Returns one row per point, after a row with the names of the columns (docs/file-formats.md).
std::string to_csv(const Sweep& sweep);

}  // namespace espalier::report
