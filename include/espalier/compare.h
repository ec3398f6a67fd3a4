// SPDX-License-Identifier: Apache-2.0
// Compares plans side by side: one column per plan, with differences to the first one. Simulate all of them again
// first (simulate), so that every figure comes from one version.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "espalier/planner.h"

namespace espalier::report {

/// Holds one plan of the comparison.
struct Compared {
  std::string name;  ///< name in the table, e.g. the file name
  PlannerResult result;
};

/// Returns the differences between the jobs that make their times incomparable: "plans 1 and 2 differ in their global
/// batch: 256 and 512". Empty: the plans have one job.
std::vector<std::string> unlike(const std::vector<Compared>& plans);
/// Returns text for a terminal, wrapped at `width` columns; 0 does not wrap. Plans that do not fit move to further
/// tables.
std::string compare(const std::vector<Compared>& plans, std::size_t width = 0);
/// Returns JSON of schema espalier.comparison/1.
std::string compare_json(const std::vector<Compared>& plans);

}  // namespace espalier::report
