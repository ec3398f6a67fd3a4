// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <iostream>

#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/interrupt.h"

namespace {

/// Columns of the terminal: COLUMNS, where that is a number, else what the terminal on stdout says; 80 without either. Narrower than 40 is
/// taken for a mistake: no table can be read there.
std::size_t terminal_width() {
  constexpr long kNarrowest = 40, kWidest = 1000;
  long columns = 0;
  if (const char* variable = std::getenv("COLUMNS")) columns = std::strtol(variable, nullptr, 10);
  winsize size{};
  if (columns <= 0 && isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return columns >= kNarrowest && columns <= kWidest ? static_cast<std::size_t>(columns) : espalier::cli::Surroundings{}.width;
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  espalier::cli::watch_interrupts();
  const char* no_color = std::getenv("NO_COLOR");
  espalier::cli::Surroundings surroundings;
  surroundings.terminal = isatty(STDERR_FILENO) == 1;
  surroundings.color = isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0');
  surroundings.input = &std::cin;
  surroundings.width = terminal_width();
  surroundings.interrupted = espalier::cli::interrupted;
  const int code = espalier::cli::run(argc, argv, std::cout, std::cerr, surroundings);
  std::cout.flush();
  return code == 0 && !std::cout ? 1 : code;  // an answer that could not be written is no answer
}
