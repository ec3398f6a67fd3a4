// SPDX-License-Identifier: Apache-2.0
// Determines the schedules that a pipeline of different stages may run: 1F1B always, ZB-H1 only if the job names it
// among its schedules.
#pragma once

#include "espalier/search_space.h"

namespace espalier {

/// Returns whether stages on heterogeneous devices may run ZB-H1.
bool admits_zero_bubble(const SearchSpace& space);

}  // namespace espalier
