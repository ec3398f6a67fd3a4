// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <iostream>

#include <unistd.h>

#include "cli/cli.h"
#include "cli/interrupt.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  espalier::cli::watch_interrupts();
  const char* no_color = std::getenv("NO_COLOR");
  espalier::cli::Surroundings surroundings;
  surroundings.terminal = isatty(STDERR_FILENO) == 1;
  surroundings.color = isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0');
  surroundings.input = &std::cin;
  surroundings.interrupted = espalier::cli::interrupted;
  const int code = espalier::cli::run(argc, argv, std::cout, std::cerr, surroundings);
  std::cout.flush();
  return code == 0 && !std::cout ? 1 : code;  // an answer that could not be written is no answer
}
