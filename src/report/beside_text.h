// SPDX-License-Identifier: Apache-2.0
// The lines of the terminal answer that speak of what stands beside the plan: engines, the simplest plan, the memory
// margin, the batch.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "espalier/planner.h"

namespace espalier::report {

/// "megatron-core, nemo", or "none; megatron-core: TP2 … 6.301 s (+2.3 %)". Empty where it was not asked.
std::string runs_on_text(const PlannerResult& r);
/// "the rules of megatron-core cost 0.210 s a step (+3.3 %): without them TP2 … takes 6.301 s; it breaks MEG-LAYERS".
/// Empty where it was not asked.
std::string restriction_text(const PlannerResult& r);
/// "TP1 … : 1 dimension, 6.201 s (+0.7 %)", or that the answer is the simplest itself. Empty where it was not asked.
std::string simplest_text(const PlannerResult& r);
/// Best plans with options of the engine, each as a line's name and text; those that change numerics are named so.
/// Empty: none gains over 2 %.
std::vector<std::pair<std::string, std::string>> option_lines(const PlannerResult& r);
/// "16.2 % of 78.1 GiB stay free: 80 % error of the memory model: …". Empty without a margin.
std::string margin_text(const PlannerResult& r);
/// The table of `--engines`; empty without it.
std::string engine_section(const PlannerResult& r);

}  // namespace espalier::report
