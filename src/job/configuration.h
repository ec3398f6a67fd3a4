// SPDX-License-Identifier: Apache-2.0
// Declares helpers for configurations that were completed (espalier/configuration.h).
#pragma once

#include <string>
#include <vector>

#include "espalier/configuration.h"

namespace espalier::job {

/// Returns "rule: text" of every broken rule, joined by "; ".
std::string joined_violations(const std::vector<RuleViolation>& broken);

}  // namespace espalier::job
