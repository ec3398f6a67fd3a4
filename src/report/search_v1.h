// SPDX-License-Identifier: Apache-2.0
// Reads the work of a search in espalier.result/1 as phases with counters. Version 1 gives each phase three counters:
// bounded, lowered and simulated. The others are in three blocks: `layerwise` for layer-wise plans, `partitions` for
// operators, and `device_groups` for plans on node groups.
#pragma once

#include <cstdint>

#include "base/document.h"
#include "espalier/search_summary.h"

namespace espalier::report {

/// Reads the phases and these blocks into `s`. `iteration_ns` is the time of the answer.
void read_search_v1(base::Reader& r, std::int64_t iteration_ns, SearchSummary& s);

}  // namespace espalier::report
