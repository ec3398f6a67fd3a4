// SPDX-License-Identifier: Apache-2.0
// Writes a sweep for the page: a row for each point, with bars of the throughput of all devices relative to the
// highest. The point whose plan the page shows is marked.
#pragma once

#include <cstddef>

#include "espalier/sweep.h"
#include "report/page_parts.h"

namespace espalier::report {

/// Writes the table. `shown` is the point whose plan the page shows; other points may have an equal plan.
PageTable sweep_table(const Sweep& sweep, std::size_t shown);

}  // namespace espalier::report
