// SPDX-License-Identifier: Apache-2.0
// Adds what `plan` returns in addition to the plan and its certificate: alternatives, the engines that run it, and the
// nearest plan for an engine that does not. Engine options, a batch that divides better and the price of engine rules
// follow.
#pragma once

#include "espalier/planner.h"
#include "planner/choice.h"
#include "planner/question.h"
#include "search/phases.h"

namespace espalier::planner {

/// Adds the baselines, the runners-up and, where the simplest plan was asked for, the fastest one.
void add_alternatives(const Question& question, const search::SearchResult& found, const Baselines& baselines,
                      const Choice& choice, PlannerResult& result);

/// Adds the rest, within the time limit of the question.
Status add_extras(const Question& question, const search::SearchResult& found, const Choice& choice, search::Evaluator& evaluator,
                  PlannerResult& result);

}  // namespace espalier::planner
