// SPDX-License-Identifier: Apache-2.0
// Implements espalier plan JOB.yaml, where the cluster of the job changes over time.
#pragma once

#include "cli/command.h"

namespace espalier::cli {

/// Prints the best plan that is never changed, and a table over the trace. `output` receives that plan and its
/// prediction. With --json the answer itself is espalier.over-time/1.
int run_over_time(Context& context, const Job& job, const PlannerOptions& options, const OutputFlags& output);

}  // namespace espalier::cli
