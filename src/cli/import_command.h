// SPDX-License-Identifier: Apache-2.0
// What the two imports share: flags of the job, and a strategy file turned into a plan of that job and simulated.
#pragma once

#include "cli/command.h"
#include "galvatron/plan_conversion.h"

namespace espalier::cli {

/// --job JOB.yaml, --set, --calibration.
void add_import_job_flags(Command& command, JobFlags& flags);

/// The plan of the document with the job's inputs embedded, simulated by Espalier's own model. bad_input: a plan cannot say it.
Result<PlannerResult> simulate_document(const Job& job, const galvatron::StrategyDocument& document,
                                        SequenceParallel tensor_groups);

void add_import_galvatron_profile(Command& command, Context& context);

}  // namespace espalier::cli
