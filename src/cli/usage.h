// SPDX-License-Identifier: Apache-2.0
// Explains a command line that CLI11 rejects, as an Error like all others: the text, what was expected, and the
// command or flag that was probably meant.
#pragma once

#include <string>
#include <vector>

#include "espalier/result.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace espalier::cli {

/// Separates the value from its requirement in our checks' messages to CLI11.
inline constexpr const char* kNoNumber = " is not a number ";

/// Returns the error. `words` is the command line without the program's name. `app` has just rejected it with
/// `error`.
Error usage_error(CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

}  // namespace espalier::cli
