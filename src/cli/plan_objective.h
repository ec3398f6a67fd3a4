// SPDX-License-Identifier: Apache-2.0
// Implements espalier plan where the job states what to minimise: money, or time within a budget or before a
// deadline.
#pragma once

#include "cli/command.h"

namespace espalier::cli {

/// Prints the table of sizes and the answer. With --json it prints espalier.objective/1; with a folder it writes the
/// files of the answer.
int run_objective(Context& context, const Job& job, const PlannerOptions& options, const OutputFlags& output);

}  // namespace espalier::cli
