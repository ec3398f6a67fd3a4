// SPDX-License-Identifier: Apache-2.0
// Writes the phases of a search and the budgets that bound it, as tables for people (`plan -v`). Seconds are wall
// clock: for the terminal, never for goldens.
#pragma once

#include <string>

#include "espalier/planner.h"

namespace espalier::report {

/// Writes the phases; empty where nothing was searched.
std::string phases_text(const SearchSummary& s);
/// Lists budgets that bound the work of a search, one per line. A star marks a budget that shapes the answer.
std::string budgets_text();

}  // namespace espalier::report
