// SPDX-License-Identifier: Apache-2.0
// The phases of a search and the budgets that bound it, as tables for people (`plan -v`). Seconds are wall clock: for
// the terminal, never for goldens.
#pragma once

#include <string>

#include "espalier/planner.h"

namespace espalier::report {

/// Empty where nothing was searched.
std::string phases_text(const SearchSummary& s);
/// Budgets that bound the work of a search, a line each; a star where a budget shapes the answer.
std::string budgets_text();

}  // namespace espalier::report
