// SPDX-License-Identifier: Apache-2.0
// Reading back what to_json(PlannerResult) writes (schema espalier.result/1), for `explain` and `compare`. Wall-clock values are
// not part of a result and come back as 0.
#pragma once

#include <string>
#include <string_view>

#include "espalier/planner.h"

namespace espalier::report {

Result<PlannerResult> result_from_json(std::string_view text, const std::string& where);

}  // namespace espalier::report
