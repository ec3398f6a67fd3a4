// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

#include <atomic>
#include <csignal>
#include <ctime>
#include <string_view>
#include <system_error>
#include <thread>

#include <unistd.h>

namespace espalier::cli {
namespace {

// A signal is sent to the program and not to a function of it, so this is the one variable that is not passed along.
std::atomic<bool> interrupt_seen{false};

/// The documentation promises an answer within 2 s. Instrumented programs are ten times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr timespec kGrace{18, 0};
#else
constexpr timespec kGrace{1, 800'000'000};
#endif

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

/// Ends the program when nothing else did: after the grace, or at a second signal.
void watch() {
  const sigset_t set = watched_signals();
  int signal = 0;
  while (sigwait(&set, &signal) != 0) {
  }
  interrupt_seen = true;
  const int again = sigtimedwait(&set, nullptr, &kGrace);
  constexpr std::string_view kNothing = "\nespalier: interrupted before there was an answer\n";
  if (again < 0 && write(STDERR_FILENO, kNothing.data(), kNothing.size()) < 0) {
  }
  _exit(130);  // other threads are still at work: destroy nothing that they use
}

}  // namespace

void watch_interrupts() {
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  try {
    std::thread(watch).detach();
  } catch (const std::system_error&) {  // no thread available: signals end the program as usual
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  }
}

bool interrupted() { return interrupt_seen; }

}  // namespace espalier::cli
