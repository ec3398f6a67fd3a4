// SPDX-License-Identifier: Apache-2.0
// From a measured run to a job and a configuration, or to the reason why none can be made. Everything that the record
// did not say is listed with its source; what has no cited default is not guessed.
#pragma once

#include "espalier/validate.h"
#include "job/framework_defaults.h"

namespace espalier::runs {

RunMapping map_run(const RunRecord& record, const job::RunDefaults& defaults);

}  // namespace espalier::runs
