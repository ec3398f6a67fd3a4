// SPDX-License-Identifier: Apache-2.0
// Plans side by side: one column a plan, differences to the first one.
#pragma once

#include <string>
#include <vector>

#include "espalier/planner.h"

namespace espalier::report {

struct Compared {
  std::string name;  ///< the file
  PlannerResult result;
};

std::string compare(const std::vector<Compared>& plans);
/// schema espalier.comparison/1
std::string compare_json(const std::vector<Compared>& plans);

}  // namespace espalier::report
