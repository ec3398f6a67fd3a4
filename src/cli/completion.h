// SPDX-License-Identifier: Apache-2.0
// Generates output from the definition of the command line: completion scripts for shells, and the manual page. These
// are pure functions of it, so that neither can contradict the program.
#pragma once

#include <string>

#include "cli/flags.h"

namespace espalier::cli {

/// Return scripts that complete commands, their commands and flags, and names of files where none of these fits.
std::string bash_completion(const DescribedCommand& program);
std::string zsh_completion(const DescribedCommand& program);
std::string fish_completion(const DescribedCommand& program);

/// Writes roff with the macros of man(7).
std::string manual_page(const DescribedCommand& program, const std::string& version);

}  // namespace espalier::cli
