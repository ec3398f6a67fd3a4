// SPDX-License-Identifier: Apache-2.0
// Implements --engine, which puts another engine in place of the job's own.
#pragma once

#include <string>

#include "cli/command.h"

namespace espalier::cli {

/// Adds --engine NAME to a command. `purpose` begins its help: "plan for this engine"; the options of engines follow.
void add_engine_flag(Command& command, std::string& engine, const std::string& purpose);
/// Returns the names of all engines for the end of a command's help.
std::string engines_help();
/// Puts the engine in place of the job's own. An empty name changes nothing; an unknown one is a usage error.
Status take_engine(const std::string& engine, JobFlags& flags);

}  // namespace espalier::cli
