// SPDX-License-Identifier: Apache-2.0
// Writes the lines of the terminal answer about the parts next to the plan: engines, the simplest plan, the memory
// margin, the batch.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "espalier/planner.h"

namespace espalier::report {

/// Returns "megatron-core, nemo", or "none; megatron-core: TP2 … 6.301 s (+2.3 %)". Empty where it was not asked for.
std::string runs_on_text(const PlannerResult& r);
/// Returns "the rules of megatron-core cost 0.210 s a step (+3.3 %): without them TP2 … takes 6.301 s; it breaks
/// MEG-LAYERS". Empty where it was not asked for.
std::string restriction_text(const PlannerResult& r);
/// Returns whether the answer is itself the simplest plan; false where it was not asked for.
bool is_simplest(const PlannerResult& r);
/// Returns "TP1 … : 1 dimension, 6.201 s (+0.7 %)", or a note that the answer is the simplest plan itself. Empty
/// where it was not asked for.
std::string simplest_text(const PlannerResult& r);
/// Returns the best plans with options of the engine, each as a line's name and text. Options that change numerics
/// are marked. Empty where none gains over 2 %.
std::vector<std::pair<std::string, std::string>> option_lines(const PlannerResult& r);
/// Returns "16.2 % of 78.1 GiB stay free: 80 % error of the memory model: …". Empty without a margin.
std::string margin_text(const PlannerResult& r);
/// Returns the table of `--engines`; empty without it.
std::string engine_section(const PlannerResult& r);

}  // namespace espalier::report
