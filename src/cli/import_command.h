// SPDX-License-Identifier: Apache-2.0
// What the two imports share: flags of the job.
#pragma once

#include "cli/command.h"

namespace espalier::cli {

/// --job JOB.yaml, --set, --calibration.
void add_import_job_flags(Command& command, JobFlags& flags);

void add_import_trace(Command& command, Context& context);
void add_import_galvatron_profile(Command& command, Context& context);
void add_import_configuration(Command& command, Context& context);
void add_import_cluster(Command& command, Context& context);

}  // namespace espalier::cli
