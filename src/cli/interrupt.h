// SPDX-License-Identifier: Apache-2.0
// Handles Ctrl-C and SIGTERM. The first one asks for the best answer so far, which long loops poll for (interrupted).
// A loop may not answer in time, because it has nothing to show yet or waits for a file. The program then ends with
// exit code 130. A second signal ends it at once. Files are written whole or not at all (espalier/documents.h), so
// that none is left half written.
#pragma once

namespace espalier::cli {

/// Starts watching. It must be called before any other thread is started: one dedicated thread takes the signals, the
/// others never see them.
void watch_interrupts();
bool interrupted();

}  // namespace espalier::cli
