// SPDX-License-Identifier: Apache-2.0
// What is made of the definition of the command line: completion scripts for shells, and the manual page. Pure
// functions of it, so that neither can say anything else than the program does.
#pragma once

#include <string>

#include "cli/flags.h"

namespace espalier::cli {

/// Commands, their commands and flags; names of files where none of these fits.
std::string bash_completion(const DescribedCommand& program);
std::string zsh_completion(const DescribedCommand& program);
std::string fish_completion(const DescribedCommand& program);

/// roff, macros of man(7).
std::string manual_page(const DescribedCommand& program, const std::string& version);

}  // namespace espalier::cli
