// SPDX-License-Identifier: Apache-2.0
// Which schedules a pipeline of unlike stages may run: 1F1B always, ZB-H1 where the job names schedules and this among
// them.
#pragma once

#include "espalier/search_space.h"

namespace espalier {

/// Whether stages on unlike devices may run ZB-H1.
bool admits_zero_bubble(const SearchSpace& space);

}  // namespace espalier
