// SPDX-License-Identifier: Apache-2.0
// Splits a shell script into words, handling quotes, comments, continuations, parentheses and here-documents. `$( …
// )`, `$(( … ))`, `${ … }` and backticks stay inside their word. A quoted string that holds flags is split into its
// words, between two kString tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"

namespace espalier::exchange {

struct ShellToken {
  std::string text;
  std::int64_t line = 0;
  bool quoted = false;
  bool ends = false;               ///< the end of a command, and of the values of a flag
  bool is_word = false;            ///< part of a test or of a case's pattern: not a flag
  bool skipped = false;            ///< in a branch that is not taken
  std::int64_t condition = 0;      ///< line of the unknown condition that guards it; 0: none
  std::size_t begin = 0, end = 0;  ///< bytes of the text, with quotes
};
inline constexpr const char* kPattern = ")";  ///< text of the end of a case's pattern
inline constexpr const char* kString = "\"";  ///< text of the beginning and the end of a quoted string: the command
                                              ///< continues

/// Splits the text. Fails (bad_input) for an unterminated quote or `$(`.
Result<std::vector<ShellToken>> read_shell_words(std::string_view text, const std::string& where);

/// Returns whether a character is a letter, a digit or '_'.
bool is_name_part(char c);
bool is_shell_name(std::string_view word);
/// Returns "NAME" for "NAME=…" and "NAME+=…"; empty where the word assigns nothing.
std::string assigned_name(std::string_view word);
/// Returns whether some word of the text begins with "--" and a letter.
bool is_flag_word(std::string_view word);

}  // namespace espalier::exchange
