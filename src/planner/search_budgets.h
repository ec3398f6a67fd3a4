// SPDX-License-Identifier: Apache-2.0
// The budgets of the search (search/budgets.h), for those who print them.
#pragma once

#include "search/budgets.h"

namespace espalier::planner {

using search::BudgetRow;
using search::budgets;

}  // namespace espalier::planner
