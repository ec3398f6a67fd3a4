// SPDX-License-Identifier: Apache-2.0
// The schedule as plain text, to paste into an issue: a row for each stage, a column for each slot of time, and a table
// of the stages.
//
//   stage 0  F0 F1 F2 F3 .  .  B0 -  F4 B1 -  …
//
// A slot is as long as the shortest forward pass. A cell holds what fills most of the slot, named where it begins
// ("F3": forward of micro-batch 3; "1F3" of chunk 1, where stages hold several, as PyTorch's schedules write it) and
// continued by "-"; "." is idle. Where the step has more slots than the width has columns, its beginning and its end
// are shown.
#pragma once

#include <cstddef>
#include <string>

#include "espalier/planner.h"
#include "espalier/timeline.h"

namespace espalier {

struct GridOptions {
  std::size_t width = 80;  ///< columns of the terminal; 0: as wide as it is
  bool ascii = false;      ///< nothing but ASCII
};
/// `timeline` must be the one of the result's plan.
std::string schedule_grid(const PlannerResult& result, const Timeline& timeline, const GridOptions& options = {});

}  // namespace espalier
