// SPDX-License-Identifier: Apache-2.0
// Reads and writes strategies and schedules as in plan.json, for other documents that name
// configurations (result.json).
#pragma once

#include "base/document.h"
#include "espalier/plan.h"

namespace espalier {

constexpr std::string_view schema_name(PlanSchema schema) {
  return schema == PlanSchema::one ? "espalier.plan/1" : "espalier.plan/2";
}

/// Writes one object, in the form of that version of plan.json.
void write_strategy(base::JsonWriter& w, const Strategy& s, PlanSchema schema);
void write_schedule(base::JsonWriter& w, const Schedule& s);
/// Reads the members `strategy` and `schedule` of `r`.
Strategy read_strategy(base::Reader& r, PlanSchema schema);
/// Reads a schedule. In a plan it has no `stages`: they are counted.
Schedule read_schedule(base::Reader& r, bool with_stages);

/// Reads a member of `stages`, whose schedule has this many virtual stages.
Stage read_stage(base::Reader& r, std::int32_t virtual_stages, PlanSchema schema);

}  // namespace espalier
