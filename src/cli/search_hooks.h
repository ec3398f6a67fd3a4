// SPDX-License-Identifier: Apache-2.0
// Adds interruption and progress to the search of a command.
#pragma once

#include "cli/command.h"

namespace espalier::cli {

/// Returns the command's options with hooks into the surroundings. Progress is shown only on a terminal, or with -v.
PlannerOptions hooked(Context& context, const PlannerOptions& options);
/// Returns the exit code of a search that was interrupted, cut by a limit, or neither.
int exit_code_of(const Context& context, const SearchSummary& search);
/// Removes the last line of progress from the terminal.
void clear_progress(Context& context);

}  // namespace espalier::cli
