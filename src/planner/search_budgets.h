// SPDX-License-Identifier: Apache-2.0
// Exposes the budgets of the search (search/budgets.h) to code that prints them.
#pragma once

#include "search/budgets.h"

namespace espalier::planner {

using search::BudgetRow;
using search::budgets;

}  // namespace espalier::planner
