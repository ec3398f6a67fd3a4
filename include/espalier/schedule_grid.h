// SPDX-License-Identifier: Apache-2.0
// Draws the schedule as plain text, to paste into an issue: a row for each stage, a column for each time slot, and a
// table of the stages.
//
//   stage 0  F0 F1 F2 F3 .  .  B0 -  F4 B1 -  …
//
// A slot is as long as the shortest forward pass. A cell shows the work that fills most of the slot. The name is
// written where the work begins ("F3": forward of micro-batch 3; "1F3": of chunk 1, if stages hold several, as in
// PyTorch's schedules) and continued by "-"; "." is idle. If the step has more slots than the width has columns, its
// beginning and its end are shown.
#pragma once

#include <cstddef>
#include <string>

#include "espalier/planner.h"
#include "espalier/timeline.h"

namespace espalier::report {

/// Holds the options of schedule_grid().
struct GridOptions {
  std::size_t width = 80;  ///< columns of the terminal; 0: no limit
  bool ascii = false;      ///< only ASCII characters
};
/// Returns the grid. `timeline` must be the one of the result's plan.
std::string schedule_grid(const PlannerResult& result, const Timeline& timeline, const GridOptions& options = {});

}  // namespace espalier::report
