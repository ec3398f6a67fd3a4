// SPDX-License-Identifier: Apache-2.0
// Never trust the search: a finished plan is verified again from its inputs, by code that shares nothing with cost,
// search and simulation. What it checks is said by name in each Finding (docs/acceptance.md): structure, devices used
// once, layers covered, memory, messages, freedom from deadlock, the iteration time against bounds of its own, and the
// rules of the engine.
#pragma once

#include <string>
#include <string_view>

#include "espalier/findings.h"
#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/planner.h"
#include "espalier/result.h"

namespace espalier {

struct CheckOptions {
  std::string engine;  ///< whose rules are checked; empty: the plan's own
  /// Of a result that this build made: search for the same again, and compare all but wall-clock values.
  bool search_again = false;
  PlannerOptions how;  ///< of that search: threads, interruption and progress
};

/// Checks a plan. `job` is the plan's own (job_of_plan). Predictions that fail are findings, too. usage: an unknown
/// engine.
Result<CheckReport> check_plan(const Job& job, const Plan& plan, const CheckOptions& options = {});

/// The checks of its plan, and every figure that a result.json says beside it: `claimed` is what result_from_json read
/// from `text`. Figures that another build made are not compared, and a finding says so.
Result<CheckReport> check_result(const Job& job, const PlannerResult& claimed, std::string_view text,
                                 const CheckOptions& options = {});

/// Whether a document is an answer of what-if, replan or --survive, as --json prints it.
bool is_answer_to_change(std::string_view text);
/// Such an answer, from the plan and the change that it names: bytes that move, pauses, horizons, steps (docs/adapt.md,
/// "Checked").
Result<CheckReport> check_answer_to_change(std::string_view text, const std::string& where);

/// For people. Lay it out for a terminal with lay_out() (espalier/text.h).
std::string to_text(const CheckReport& report, const Plan& plan);
std::string to_text(const CheckReport& report, const std::string& title);
/// schema espalier.check/1; `name` is what the document calls the plan.
std::string to_json(const CheckReport& report, const std::string& name);

}  // namespace espalier
