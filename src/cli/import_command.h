// SPDX-License-Identifier: Apache-2.0
// Declares the job flags that the two imports share.
#pragma once

#include "cli/command.h"

namespace espalier::cli {

/// Adds --job JOB.yaml, --set and --calibration.
void add_import_job_flags(Command& command, JobFlags& flags);

void add_import_trace(Command& command, Context& context);
void add_import_galvatron_profile(Command& command, Context& context);
void add_import_configuration(Command& command, Context& context);
void add_import_cluster(Command& command, Context& context);

}  // namespace espalier::cli
