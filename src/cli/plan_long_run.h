// SPDX-License-Identifier: Apache-2.0
// Implements espalier plan JOB.yaml, where links of the job's cluster have token buckets.
#pragma once

#include "cli/command.h"

namespace espalier::cli {

/// Prints the plan that is best in the long run, and a table of candidates. `output` receives that plan and its
/// prediction at the sustained rates. With --json the answer itself is espalier.long-run/1.
int run_long_run(Context& context, const Job& job, const PlannerOptions& options, const OutputFlags& output);

}  // namespace espalier::cli
