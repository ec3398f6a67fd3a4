// SPDX-License-Identifier: Apache-2.0
// What goes with configurations that were filled in (espalier/configuration.h).
#pragma once

#include <string>
#include <vector>

#include "espalier/configuration.h"

namespace espalier::job {

/// "rule: text" of every broken rule, joined by "; ".
std::string joined_violations(const std::vector<RuleViolation>& broken);

}  // namespace espalier::job
