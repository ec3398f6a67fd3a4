// SPDX-License-Identifier: Apache-2.0
// Re-verifies a finished plan from its inputs, with code that shares nothing with cost, search and simulation. Each
// Finding names its check. The checks cover structure, devices used once, layers covered, memory, messages, freedom
// from deadlock, the step time against independent bounds, and engine rules.
#pragma once

#include <string>
#include <string_view>

#include "espalier/findings.h"
#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/planner.h"
#include "espalier/result.h"

namespace espalier::report {

/// Holds the options of check_plan() and check_result().
struct CheckOptions {
  std::string engine;  ///< engine whose rules are checked; empty: the plan's own
  /// Repeats the search of a result that this build made, and compares everything except wall-clock values.
  bool search_again = false;
  PlannerOptions how;  ///< threads, interruption and progress of that search
};

/// Checks a plan. `job` is the plan's own (job_of_plan). Predictions that fail are reported as findings. Fails with
/// usage for an unknown engine.
Result<CheckReport> check_plan(const Job& job, const Plan& plan, const CheckOptions& options = {});

/// Checks the plan of a result and every other figure in its result.json. `claimed` is the value that
/// result_from_json() read from `text`. Figures made by another build are not compared, and a finding reports that.
Result<CheckReport> check_result(const Job& job, const PlannerResult& claimed, std::string_view text,
                                 const CheckOptions& options = {});

/// Returns whether a document is the --json output of what-if, replan or --survive.
bool is_answer_to_change(std::string_view text);
/// Checks such a document against the plan and the change that it names: bytes moved, pauses, horizons and steps
/// (docs/adapt.md, "Checked").
Result<CheckReport> check_answer_to_change(std::string_view text, const std::string& where);

/// Returns plain text; lay_out() wraps it for a terminal (espalier/text.h).
std::string to_text(const CheckReport& report, const Plan& plan);
std::string to_text(const CheckReport& report, const std::string& title);
/// Returns JSON of schema espalier.check/1; `name` is the plan's name in the document.
std::string to_json(const CheckReport& report, const std::string& name);

}  // namespace espalier::report
