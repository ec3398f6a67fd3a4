// SPDX-License-Identifier: Apache-2.0
// Provides the command line as a function: text in, text out, an exit code back. main.cpp only calls it; tests call
// it in memory.
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>

namespace espalier::cli {

/// Describes the environment, apart from the two streams.
struct Surroundings {
  bool terminal = false;              ///< stderr is a terminal: progress is shown there
  bool color = false;                 ///< stdout is a terminal and NO_COLOR is not set
  std::size_t width = 80;             ///< columns of the terminal; 80 for a pipe or a file
  bool utf8 = true;                   ///< the locale of stdout supports more than ASCII
  std::function<bool()> interrupted;  ///< true after Ctrl-C
  std::istream* input = nullptr;      ///< stdin: read for a file called "-"
  std::ostream* text = nullptr;       ///< with --json: receives the text answer that the command prints without it
};

/// Returns an exit code of docs/file-formats.md: 0 ok, 1 internal, 2 usage, 3 bad input, 4 infeasible, 5 check
/// failed, 6 limit, 130.
int run(int argc, const char* const* argv, std::ostream& out, std::ostream& err, const Surroundings& surroundings = {});

}  // namespace espalier::cli
