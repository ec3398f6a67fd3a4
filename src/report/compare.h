// SPDX-License-Identifier: Apache-2.0
// Plans side by side: one column a plan, differences to the first one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "espalier/planner.h"

namespace espalier::report {

struct Compared {
  std::string name;  ///< the file
  PlannerResult result;
};

/// No line longer than `width` columns, more plans than have room in tables of their own; 0: as wide as it is.
std::string compare(const std::vector<Compared>& plans, std::size_t width = 0);
/// schema espalier.comparison/1
std::string compare_json(const std::vector<Compared>& plans);

}  // namespace espalier::report
