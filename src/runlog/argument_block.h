// SPDX-License-Identifier: Apache-2.0
// Reads the arguments that Megatron-LM prints before it trains:
//
//   ------------------------ arguments ------------------------
//     micro_batch_size ................................ 2
//     sequence_parallel ............................... True
//   -------------------- end of arguments ---------------------
//
// Launchers put prefixes before lines, and ranks print at once. A line counts when it contains a name, dots and a
// value in sequence.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/result.h"

namespace espalier::runlog {

struct Argument {
  std::string value;
  std::int64_t line = 0;
};

/// Returns the arguments by name; empty where the log has no such block. A name with two different values is
/// bad_input, since the file holds logs of several runs.
Result<std::map<std::string, Argument>> read_argument_block(std::string_view text, const std::string& where);

/// Returns the whole value as a number; nothing for other values ("None", "True").
std::optional<std::int64_t> integer_of(const Argument& argument);

}  // namespace espalier::runlog
