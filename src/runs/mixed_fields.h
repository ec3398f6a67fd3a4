// SPDX-License-Identifier: Apache-2.0
// What a record of a run on unequal devices or links says beside the usual fields: device_groups, network, stages, and
// of `extra` the placement, the exchange of gradients, the micro-batches of a replica and what the end of a step took
// (docs/file-formats.md, "Measured runs").
#pragma once

#include "espalier/measured_runs.h"
#include "runs/record_fields.h"

namespace espalier::runs {

void read_mixed(const RecordFields& f, RunRecord& record);

}  // namespace espalier::runs
