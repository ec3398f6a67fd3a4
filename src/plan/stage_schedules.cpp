// SPDX-License-Identifier: Apache-2.0
#include "plan/stage_schedules.h"

#include "espalier/plan.h"

namespace espalier {

bool admits_zero_bubble(const SearchSpace& space) {
  const std::string name = "schedule";
  const bool named = space.allow.contains(name) || space.forbid.contains(name);
  return named && space.admits(name, static_cast<std::int64_t>(ScheduleKind::zb_h1));
}

}  // namespace espalier
