// SPDX-License-Identifier: Apache-2.0
// Suggests flags in place of configuration flags that break a rule.
#pragma once

#include <string>

#include "cli/configuration_flags.h"

namespace espalier::cli {

/// Returns "--tp 4 would do": one flag changed or left out, with which every rule of the space and of the engine is
/// kept. Missing flags are derived again, as when the line is typed. Empty where no single change helps.
std::string change_that_helps(const ConfigurationFlags& flags, const Job& job);

}  // namespace espalier::cli
