// SPDX-License-Identifier: Apache-2.0
// Ctrl-C: the first one asks for the best answer so far, the second one ends the program at once.
#pragma once

namespace espalier::cli {

void watch_interrupts();
bool interrupted();

}  // namespace espalier::cli
