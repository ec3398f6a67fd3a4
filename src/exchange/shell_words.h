// SPDX-License-Identifier: Apache-2.0
// Words of a shell script, as far as quotes, comments, continuations, parentheses and here-documents go. `$( … )`, `$((
// … ))`, `${ … }` and backticks stay inside their word. A quoted string that holds flags is split into its words,
// between two kString tokens.
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
  bool ends = false;               ///< the end of a command: what follows is no value of what precedes
  bool is_word = false;            ///< of a test or of a case's pattern: no flag
  bool skipped = false;            ///< of a branch that is not taken
  std::int64_t condition = 0;      ///< line of the unknown condition that guards it; 0: none
  std::size_t begin = 0, end = 0;  ///< bytes of the text, with quotes
};
inline constexpr const char* kPattern = ")";  ///< text of the end of a case's pattern
inline constexpr const char* kString = "\"";  ///< text of the beginning and the end of a quoted string: the command
                                              ///< continues

/// bad_input: a quote or a `$(` that does not end.
Result<std::vector<ShellToken>> read_shell_words(std::string_view text, const std::string& where);

/// A letter, a digit or '_'.
bool is_name_part(char c);
bool is_shell_name(std::string_view word);
/// "NAME" of "NAME=…" and "NAME+=…"; empty: it assigns nothing.
std::string assigned_name(std::string_view word);
/// Whether some word of the text begins with "--" and a letter.
bool is_flag_word(std::string_view word);

}  // namespace espalier::exchange
