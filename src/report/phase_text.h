// SPDX-License-Identifier: Apache-2.0
// What each phase of a search did, as a table for people (`plan -v`). Seconds are wall clock: for the terminal, never for goldens.
#pragma once

#include <string>

#include "espalier/planner.h"

namespace espalier::report {

/// Empty where nothing was searched.
std::string phases_text(const SearchSummary& s);

}  // namespace espalier::report
