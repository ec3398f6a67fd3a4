// SPDX-License-Identifier: Apache-2.0
// A sweep on the page: a row for each point, with bars of the throughput of all devices relative to the highest. The point whose plan the page shows is marked.
#pragma once

#include "espalier/sweep.h"
#include "report/page_parts.h"

namespace espalier::report {

/// `shown`: the plan of the page.
PageTable sweep_table(const Sweep& sweep, const Plan& shown);

}  // namespace espalier::report
