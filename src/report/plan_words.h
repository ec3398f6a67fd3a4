// SPDX-License-Identifier: Apache-2.0
// Lines that the terminal answer and the page share.
#pragma once

#include <string>

#include "espalier/planner.h"

namespace espalier::report {

/// "llama-3-8b on 1 × 8 h100-sxm-80gb · bf16 · sequence 8,192 · global batch 64 · engine generic"
std::string job_line(const Plan& plan);
/// What is proven of the plan, and what no search looked at.
std::string certificate_text(const SearchSummary& search);

}  // namespace espalier::report
