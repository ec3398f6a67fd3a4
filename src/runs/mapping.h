// SPDX-License-Identifier: Apache-2.0
// From a measured run to a job and a configuration, or to the reason why none can be made. Everything that the record did not
// say is listed with its source; what has no cited default is not guessed.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "espalier/planner.h"
#include "job/framework_defaults.h"
#include "runs/run_record.h"

namespace espalier::runs {

/// A value that the record did not hold.
struct UsedDefault {
  std::string field, value, source;
};

struct MappedRun {
  Job job;
  Strategy strategy;
  Schedule schedule;
  std::vector<UsedDefault> defaults;
  bool time_known = true;         ///< the number of devices is the record's, not made up for its memory
  bool memory_known = false;      ///< the record says how much memory the device has
  bool memory_comparable = true;  ///< false: which operators are computed again is not said, so neither is what is kept
  bool peak_comparable = true;    ///< false: the record's peak was taken in a way that is not known
  std::string memory_rank = "fullest";
  std::string memory_kind = "allocated";  ///< "allocated", "reserved", "device" (record_words.h)
  double memory_unit_bytes = 1073741824.0;
  /// The record says that some blocks are recomputed but not how many: as many as memory requires (evaluate decides).
  bool recompute_what_does_not_fit = false;
  /// The record is silent about a switch that recomputes all blocks: on where the run, which was measured, does not fit without.
  bool recompute_if_needed = false;
};

/// Why a record is not predicted. `reason` is short and the same for all alike (it is counted); `detail` has the numbers.
struct Skip {
  std::string reason, detail;
};

using Mapping = std::variant<MappedRun, Skip>;
Mapping map_run(const RunRecord& record, const job::RunDefaults& defaults);

}  // namespace espalier::runs
