// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <iostream>
#include <string>

#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/interrupt.h"

namespace {

/// Returns the columns of the terminal: COLUMNS, where that is a number, else those of the terminal on stdout, and 80
/// without either. A width below 40 is taken for a mistake, since no table is readable there.
std::size_t terminal_width() {
  constexpr long kNarrowest = 40, kWidest = 1000;
  long columns = 0;
  if (const char* variable = std::getenv("COLUMNS")) columns = std::strtol(variable, nullptr, 10);
  winsize size{};
  if (columns <= 0 && isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return columns >= kNarrowest && columns <= kWidest ? static_cast<std::size_t>(columns) : espalier::cli::Surroundings{}.width;
}

/// Returns whether the locale names UTF-8, from the first of its variables that is set. The default is true.
bool utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string locale(value);
    return locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos ||
           locale.find("utf-8") != std::string::npos;
  }
  return true;
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
  surroundings.utf8 = utf8_locale();
  surroundings.interrupted = espalier::cli::interrupted;
  const int code = espalier::cli::run(argc, argv, std::cout, std::cerr, surroundings);
  std::cout.flush();
  return code == 0 && !std::cout ? 1 : code;  // an unwritten answer is a failure
}
