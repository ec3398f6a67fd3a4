// SPDX-License-Identifier: Apache-2.0
// The if, case and loops of a shell script, by token. A block that does not end is none: it may be prose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "exchange/shell_words.h"

namespace espalier::exchange {

struct ShellBlock {
  enum class Kind : std::uint8_t { branch, choice, loop };  ///< if; case; for, while and until
  /// Tokens [test, test_end) decide whether [body, body_end) runs: a command, or the patterns of a case. Empty test:
  /// else.
  struct Arm {
    std::size_t test, test_end, body, body_end;
  };
  Kind kind = Kind::branch;
  std::size_t first = 0, last = 0;  ///< tokens: `if` and `fi`
  std::size_t header = 0;           ///< of a choice and a loop: the token `in` or `do`
  std::vector<Arm> arms;
};

/// By their first token. Words of tests and patterns are marked as words.
std::map<std::size_t, ShellBlock> shell_blocks(std::vector<ShellToken>& tokens);
/// Words before which a command begins anew: else, {, exec, export …
bool begins_a_command(const std::string& word);

}  // namespace espalier::exchange
