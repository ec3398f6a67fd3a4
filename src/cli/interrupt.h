// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM: the first one asks for the best answer so far, which long loops poll for (interrupted). Where no
// loop answers in time, because it has nothing to show yet or waits for a file, the program ends with exit code 130 all
// the same; a second one ends it at once. Files are written whole or not at all (espalier/documents.h), so that none is
// left half written.
#pragma once

namespace espalier::cli {

/// From here on. To be called before any thread is started: a thread of its own takes the signals, the others never see
/// them.
void watch_interrupts();
bool interrupted();

}  // namespace espalier::cli
