// SPDX-License-Identifier: Apache-2.0
// Widens intervals for kinds of jobs that took longer in published runs than predicted. The intervals (interval.h)
// contain no run of these kinds: adapters whose weights are gathered module by module, and experts with uneven loads.
// Their interval reaches the slowest published run, t·high, and its basis names the kind.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/job.h"
#include "plan/engine_fwd.h"
#include "plan/program.h"
#include "planner/interval.h"

namespace espalier::planner {

/// Holds a row of data/calibration/interval_exceptions.yaml. A condition without a value always holds.
struct IntervalException {
  std::string engine;  ///< base name
  std::string kind;    ///< "adapters under ZeRO-3"
  std::optional<bool> adapters, experts, device_runs;
  std::optional<int> zero;
  double high = 1;  ///< measured / predicted of the slowest published run
  std::string source;
};

Result<std::vector<IntervalException>> read_interval_exceptions(std::string_view yaml, const std::string& where);
const std::vector<IntervalException>& shipped_interval_exceptions();

/// Holds the properties that conditions name.
struct IntervalFacts {
  std::string engine;  ///< base name
  bool adapters = false, experts = false, device_runs = true;
  std::vector<int> zero;  ///< the ZeRO stages of all strategies of the plan
};
IntervalFacts interval_facts(const Job& job, const EngineModel& engine, const Program& program);

/// Returns the interval; the first row that holds widens it if the interval does not reach as far.
PredictionInterval widened(PredictionInterval interval, const IntervalFacts& facts, const std::vector<IntervalException>& rows);

}  // namespace espalier::planner
