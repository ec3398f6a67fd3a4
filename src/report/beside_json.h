// SPDX-License-Identifier: Apache-2.0
// Writes the parts of a result next to its plan as keys of espalier.result/2: runs_on, runnable, engines,
// restriction, simplest, batch_hint, options; absent where not asked for.
#pragma once

#include <cstdint>

#include "base/document.h"
#include "espalier/planner.h"

namespace espalier::report {

inline constexpr std::int64_t kBig = std::int64_t{1} << 62;  ///< the largest count and size of a document

void write_beside(base::JsonWriter& w, const PlannerResult& result);
void read_beside(base::Reader& r, PlannerResult& result);

}  // namespace espalier::report
