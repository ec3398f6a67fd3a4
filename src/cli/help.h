// SPDX-License-Identifier: Apache-2.0
// Writes the text of `--help`: the description of a command, its flags with their values, and an example, in lines
// that fit a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/flags.h"

namespace espalier::cli {

/// Writes the help for `path`, such as "espalier inspect model". `footer` is the command's addition at the end. Lines
/// are at most `width` long, except for longer words.
std::string help_text(const DescribedCommand& command, const std::string& path, const std::string& footer, std::size_t width);

/// Returns lines that can be typed, without "espalier"; empty where the command has commands of its own.
std::vector<std::string> examples_of(const std::string& path);

}  // namespace espalier::cli
