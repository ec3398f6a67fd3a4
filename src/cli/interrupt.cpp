// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

#include <csignal>

namespace espalier::cli {
namespace {

// A signal handler has no other way to speak: the one variable of the program that is not passed along.
volatile std::sig_atomic_t interrupt_seen = 0;

extern "C" void on_interrupt(int signal) {
  interrupt_seen = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void watch_interrupts() {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

bool interrupted() { return interrupt_seen != 0; }

}  // namespace espalier::cli
