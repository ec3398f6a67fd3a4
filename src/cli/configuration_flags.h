// SPDX-License-Identifier: Apache-2.0
// One configuration as flags: --tp 8 --pp 4 … What no flag says is as espalier/configuration.h describes it.
#pragma once

#include <string>

#include "cli/flags.h"
#include "espalier/configuration.h"

namespace espalier::cli {

using ConfigurationFlags = ConfigurationWords;
using Configuration = CompleteConfiguration;

void add_configuration_flags(Command& command, ConfigurationFlags& flags);
/// What the engines do where no flag says otherwise, one line each.
std::string configuration_defaults_help();
/// read_configuration (espalier/configuration.h), errors of which name flags.
Result<Configuration> read_flags(const ConfigurationFlags& flags, const Job& job);

}  // namespace espalier::cli
