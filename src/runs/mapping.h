// SPDX-License-Identifier: Apache-2.0
// Maps a measured run to a job and a configuration, or to the reason why none can be made. Everything missing from
// the record is listed with its source. Values without a cited default are not guessed.
#pragma once

#include "espalier/validate.h"
#include "job/framework_defaults.h"

namespace espalier::runs {

RunMapping map_run(const RunRecord& record, const job::RunDefaults& defaults);

}  // namespace espalier::runs
