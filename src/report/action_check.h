// SPDX-License-Identifier: Apache-2.0
// One action of an answer to a change, verified against the situation that it answers. Findings are called "ACTION: …"
// (change_check.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "adapt/situation.h"
#include "espalier/findings.h"
#include "report/change_claims.h"

namespace espalier::report {

/// "17 ns", or "null" as the document has it.
std::string written(const std::optional<std::int64_t>& ns);
/// Adds its findings. `if_stay_ns`: a step if the plan stays, as the whole answer says; none: it cannot.
void check_action(const adapt::Situation& situation, const ClaimedChange& claimed, const std::optional<std::int64_t>& if_stay_ns,
                  std::vector<Finding>& out);

}  // namespace espalier::report
