// SPDX-License-Identifier: Apache-2.0
// Makes phases of a search for tests of what is told about it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "espalier/search_phases.h"

namespace espalier::planner::test {

/// Returns a phase that ran to its end.
inline PhaseSummary phase(std::string_view name, std::int64_t best_ns, SearchCounters counters) {
  PhaseSummary out{std::string(name), false, true};
  out.best_ns = best_ns;
  out.counters = std::move(counters);
  return out;
}

/// Returns the phases of a layer-wise search: `solved` of `choices`, and `kept` of `strategies`.
inline std::vector<PhaseSummary> layer_phases(std::int64_t uniform_ns, std::int64_t strategies = 0, std::int64_t kept = 0,
                                              std::int64_t choices = 0, std::int64_t solved = 0) {
  return {phase(kUniformPhase, uniform_ns, {{SearchCounter::simulated, 1}}), phase(kLayersPhase, 0,
                                                                                   {{SearchCounter::bounded, solved},
                                                                                    {SearchCounter::strategies, strategies},
                                                                                    {SearchCounter::kept, kept},
                                                                                    {SearchCounter::choices, choices}})};
}

}  // namespace espalier::planner::test
