// SPDX-License-Identifier: Apache-2.0
// Writes lines that the terminal answer and the page share.
#pragma once

#include <string>
#include <string_view>

#include "espalier/planner.h"

namespace espalier::report {

/// Returns "llama-3-8b on 1 × 8 h100-sxm-80gb · bf16 · sequence 8,192 · global batch 64 · engine generic".
std::string job_line(const Plan& plan);
/// Returns that line without the engine.
std::string job_words(const Plan& plan);
/// Describes what is proven about the plan, and what no search covered.
std::string certificate_text(const SearchSummary& search);
/// Returns a line of an answer, its value from column 16 on.
std::string answer_line(std::string_view name, const std::string& value);
/// Returns the same with a value that may break into several lines.
std::string wrapped_line(std::string_view name, const std::string& value);
/// "at most 2.1 %"; "less than 0.1 %" where the gap would print as 0.0 %.
std::string at_most(double gap);
/// "+2.1 %" or "-2.1 %".
std::string signed_percent(double fraction);
/// "   DOES NOT FIT" and the like, to be appended to the memory; empty: the plan fits.
std::string fit_note(const Prediction& prediction);
/// The price of a step, a million tokens and the whole run.
std::string cost_text(const Expense& cost, bool tokens);
/// "rails out, 40.0 % of the step, 80.0 % of the capacity at most"; empty: the closed network has no links.
std::string busiest_links(const Prediction& prediction);
/// "173.5 days, 266,544 GPU-hours".
std::string run_words(const Prediction& prediction);
/// Whether throughput is counted in tokens; false: in samples.
bool counts_tokens(const Plan& plan);

}  // namespace espalier::report
