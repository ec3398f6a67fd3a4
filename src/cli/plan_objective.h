// SPDX-License-Identifier: Apache-2.0
// espalier plan where the job states what to minimise: money, or time within a budget or before a deadline.
#pragma once

#include "cli/command.h"

namespace espalier::cli {

/// The table of sizes and the answer; with --json espalier.objective/1, with a folder the files of the answer.
int run_objective(Context& context, const Job& job, const PlannerOptions& options, const OutputFlags& output);

}  // namespace espalier::cli
