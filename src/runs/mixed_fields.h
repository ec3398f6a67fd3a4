// SPDX-License-Identifier: Apache-2.0
// Reads the additional fields of a record of a run on unequal devices or links: device_groups, network and stages.
// From `extra` it reads the placement, the exchange of gradients, the micro-batches of a replica and the duration of
// a step's end (docs/file-formats.md, "Measured runs").
#pragma once

#include "espalier/measured_runs.h"
#include "runs/record_fields.h"

namespace espalier::runs {

void read_mixed(const RecordFields& f, RunRecord& record);

}  // namespace espalier::runs
