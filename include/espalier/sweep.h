// SPDX-License-Identifier: Apache-2.0
// Plans of one job over values of some of its settings: every combination, as a table, as JSON and as CSV.
//
//   espalier::Sweep sweep{{{"cluster.nodes", {"1", "2"}}, {"engine", {"megatron-core", "torchtitan"}}}, {}};
//   for (const auto& values : combinations(sweep.axes)) sweep.points.push_back({values, plan_of_these(values)});
//   std::cout << to_text(sweep, 100);
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "espalier/planner.h"

namespace espalier {

struct SweepAxis {
  std::string path;                 ///< of the job: "cluster.nodes"
  std::vector<std::string> values;  ///< as they were given
};

struct SweepPoint {
  std::vector<std::string> values;  ///< one for each axis
  Result<PlannerResult> result;     ///< or why there is no plan: a finding of the sweep
};

struct Sweep {
  std::vector<SweepAxis> axes;
  std::vector<SweepPoint> points;
};

/// Every combination of the axes' values, the last axis changing fastest.
std::vector<std::vector<std::string>> combinations(const std::vector<SweepAxis>& axes);

/// For people, no line longer than `width` columns; 0: as wide as it is.
std::string to_text(const Sweep& sweep, std::size_t width = 0);
/// schema espalier.sweep/1.
std::string to_json(const Sweep& sweep, PlanSchema schema = PlanSchema::two);
/// One row a point, a first row with the names of the columns (docs/file-formats.md).
std::string to_csv(const Sweep& sweep);

}  // namespace espalier
