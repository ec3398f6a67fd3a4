// SPDX-License-Identifier: Apache-2.0
// What a command that searches hands to the search: interruption, and where it stands.
#pragma once

#include "cli/command.h"

namespace espalier::cli {

/// Options of the command plus the hooks into the surroundings: progress on a terminal alone, or with -v.
PlannerOptions hooked(Context& context, const PlannerOptions& options);
/// Whether the search was interrupted, cut by a limit, or neither.
int exit_code_of(const Context& context, const SearchSummary& search);
/// Takes the last line of progress off the terminal.
void clear_progress(Context& context);

}  // namespace espalier::cli
