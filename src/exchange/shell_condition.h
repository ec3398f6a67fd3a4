// SPDX-License-Identifier: Apache-2.0
// Decides tests of a shell, `[ … ]`, `[[ … ]]`, `test …` and `(( … ))`, from the values of its variables.
#pragma once

#include <span>

#include "exchange/shell_values.h"
#include "exchange/shell_words.h"

namespace espalier::exchange {

struct ShellVerdict {
  enum class Kind : std::uint8_t { yes, no, open } kind = Kind::open;
  std::vector<std::string> missing = {};  ///< names that would decide it
};

/// Returns the verdict of a command, which is open for anything but a test.
ShellVerdict decide(std::span<const ShellToken> command, const ShellVariables& variables);
/// Returns whether a pattern of a case (`7B|7b`, `*`, `*.yaml`) matches.
bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace espalier::exchange
