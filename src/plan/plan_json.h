// SPDX-License-Identifier: Apache-2.0
// A strategy and a schedule as plan.json writes them, for other documents that name configurations (result.json).
#pragma once

#include "base/document.h"
#include "espalier/plan.h"

namespace espalier {

/// One object.
void write_strategy(base::JsonWriter& w, const Strategy& s);
void write_schedule(base::JsonWriter& w, const Schedule& s);
/// The members `strategy` and `schedule` of `r`.
Strategy read_strategy(base::Reader& r);
/// A plan's schedule has no `stages`: they are counted.
Schedule read_schedule(base::Reader& r, bool with_stages);

}  // namespace espalier
