// SPDX-License-Identifier: Apache-2.0
// The arguments that Megatron-LM prints before it trains:
//
//   ------------------------ arguments ------------------------
//     micro_batch_size ................................ 2
//     sequence_parallel ............................... True
//   -------------------- end of arguments ---------------------
// Launchers put prefixes before lines, and ranks print at once: a line counts when a name, dots and a value stand
// behind each other in it.
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

/// By name; empty where the log has no such block. A name that stands twice with two values is bad_input: logs of
/// several runs in one file.
Result<std::map<std::string, Argument>> read_argument_block(std::string_view text, const std::string& where);

/// The whole value as a number; nothing: it is none ("None", "True").
std::optional<std::int64_t> integer_of(const Argument& argument);

}  // namespace espalier::runlog
