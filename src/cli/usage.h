// SPDX-License-Identifier: Apache-2.0
// What is wrong with a command line that CLI11 refuses, as an Error like all others: what stands there, what was
// expected, and the command or flag that was probably meant.
#pragma once

#include <string>
#include <vector>

#include "espalier/result.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace espalier::cli {

/// Between the value and what it had to be, in what a check of ours says to CLI11.
inline constexpr const char* kNoNumber = " is no number ";

/// `words`: the command line without the program's name. `app` has just refused it with `error`.
Error usage_error(CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

}  // namespace espalier::cli
