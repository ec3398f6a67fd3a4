// SPDX-License-Identifier: Apache-2.0
// Reads one configuration from flags: --tp 8 --pp 4 … Missing flags have the values described in
// espalier/configuration.h.
#pragma once

#include <string>

#include "cli/flags.h"
#include "espalier/configuration.h"

namespace espalier::cli {

using ConfigurationFlags = ConfigurationWords;
using Configuration = CompleteConfiguration;

void add_configuration_flags(Command& command, ConfigurationFlags& flags);
/// Describes the engines' defaults where no flag sets a value, one line each.
std::string configuration_defaults_help();
/// Reads the configuration by read_configuration (espalier/configuration.h), with errors that name flags.
Result<Configuration> read_flags(const ConfigurationFlags& flags, const Job& job);

}  // namespace espalier::cli
