// SPDX-License-Identifier: Apache-2.0
#include "plan/stage_schedules.h"

#include "espalier/plan.h"

namespace espalier {

bool admits_zero_bubble(const SearchSpace& space) {
  const bool named = space.allowed.contains(Dimension::schedule) || space.forbidden.contains(Dimension::schedule);
  return named && space.admits(Dimension::schedule, ScheduleKind::zb_h1);
}

}  // namespace espalier
