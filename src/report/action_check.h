// SPDX-License-Identifier: Apache-2.0
// Verifies one action of an answer to a change against the situation that it answers. Findings are called "ACTION: …"
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

/// Returns "17 ns", or "null" as the document has it.
std::string written(const std::optional<std::int64_t>& ns);
/// Adds the findings of an action. `if_stay_ns` is a step if the plan stays, as the whole answer has it; none where
/// it cannot stay.
void check_action(const adapt::Situation& situation, const ClaimedChange& claimed, const std::optional<std::int64_t>& if_stay_ns,
                  std::vector<Finding>& out);

}  // namespace espalier::report
