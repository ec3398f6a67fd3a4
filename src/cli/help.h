// SPDX-License-Identifier: Apache-2.0
// The text of `--help`: the description of a command, its flags with their values, and an example, in lines that fit a
// terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/flags.h"

namespace espalier::cli {

/// `path`: "espalier inspect model". `footer`: what the command adds at the end. Lines are at most `width` long, words
/// that are longer aside.
std::string help_text(const DescribedCommand& command, const std::string& path, const std::string& footer, std::size_t width);

/// Lines that can be typed, without "espalier"; empty: the command has commands of its own.
std::vector<std::string> examples_of(const std::string& path);

}  // namespace espalier::cli
