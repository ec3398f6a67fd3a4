// SPDX-License-Identifier: Apache-2.0
// Finds the if, case and loops of a shell script, by token. A block without an end is not a block, since it may be
// prose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "exchange/shell_words.h"

namespace espalier::exchange {

struct ShellBlock {
  enum class Kind : std::uint8_t { branch, choice, loop };  ///< if; case; for, while and until
  /// Describes tokens [test, test_end) that decide whether [body, body_end) runs: a command, or the patterns of a
  /// case. An empty test is an else.
  struct Arm {
    std::size_t test, test_end, body, body_end;
  };
  Kind kind = Kind::branch;
  std::size_t first = 0, last = 0;  ///< tokens: `if` and `fi`
  std::size_t header = 0;           ///< the token `in` of a choice or `do` of a loop
  std::vector<Arm> arms;
};

/// Returns the blocks by their first token. Words of tests and patterns are marked as words.
std::map<std::size_t, ShellBlock> shell_blocks(std::vector<ShellToken>& tokens);
/// Returns whether a command begins anew after this word: else, {, exec, export …
bool begins_a_command(const std::string& word);

}  // namespace espalier::exchange
