// SPDX-License-Identifier: Apache-2.0
// Defines the result of a phase whose plans lie on node groups: its best plan, its proof and its counters.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "espalier/plan.h"

namespace espalier::search {

/// Holds a simulated plan without names.
struct GroupedCandidate {
  std::vector<Pipeline> pipelines;
  std::int64_t iteration_ns = 0;
};

/// Holds the best plan of a phase, the proof and the counters.
struct PhaseOutcome {
  std::optional<GroupedCandidate> best;
  /// Counts what the phase looked at without simulating it: bounds, partial plans, combinations of pipelines, sample
  /// splits. The header of the phase names which.
  std::int64_t bounded = 0;
  std::int64_t simulations = 0;
  std::int64_t out_of_memory = 0;  ///< simulated, but too large
  bool complete = true;            ///< false: a limit or an interruption ended the phase
  bool interrupted = false;
  std::int64_t lower_bound_ns = 0;  ///< no plan of the phase takes less; INT64_MAX: it has none
};

/// Adds the outcome of the same phase on other node groups of the same devices.
void merge(PhaseOutcome& found, const PhaseOutcome& other);

}  // namespace espalier::search
