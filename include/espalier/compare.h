// SPDX-License-Identifier: Apache-2.0
// Plans side by side: one column a plan, differences to the first one. Simulate all of them now (simulate), so that
// every figure comes from one version.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "espalier/planner.h"

namespace espalier {

struct Compared {
  std::string name;  ///< what the table calls it, e.g. the file
  PlannerResult result;
};

/// Differences between the jobs that make their times incomparable: "plans 1 and 2 differ in their global batch: 256
/// and 512". Empty: one job.
std::vector<std::string> unlike(const std::vector<Compared>& plans);
/// For people, no line longer than `width` columns, more plans than have room in tables of their own; 0: as wide as it
/// is.
std::string compare(const std::vector<Compared>& plans, std::size_t width = 0);
/// schema espalier.comparison/1
std::string compare_json(const std::vector<Compared>& plans);

}  // namespace espalier
