// SPDX-License-Identifier: Apache-2.0
// Prepares a user's measured steps for fitting: records of our own format, or a framework's log together with the
// configuration that it lacks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/corpus.h"
#include "espalier/planner.h"

namespace espalier::calibrate {

/// Holds one measured configuration, and how finely it was measured.
struct UserRow {
  CorpusRow row;
  double resolution = 0;   ///< relative half step of the printed time
  std::int64_t steps = 0;  ///< log lines behind the figure; 0: a record
};

/// Describes a file that was read, for the calibration's evidence.
struct UserInput {
  std::string file, hash, kind;  ///< kind: "records", "Megatron-LM log", kTables, …
};
inline constexpr std::string_view kTables = "nccl-tests";

struct UserRuns {
  std::vector<UserRow> rows;
  std::vector<SkippedRun> skipped;
  std::vector<UserInput> inputs;
  std::vector<std::string> notes;  ///< sentences for the user
};

/// Describes what the runs are taken to be.
struct UserTarget {
  std::string device;  ///< catalogue name: runs on others are skipped
  std::string engine;  ///< predicted as this engine; empty: as in the record
};

/// Adds measured runs, one JSON object per line. Runs that are not timed or not on the device are skipped with a
/// reason.
Status add_records(std::string_view text, const std::string& file, const UserTarget& target, int threads, UserRuns& out);

/// Adds a log of one configuration. Without `warm_up`, runlog::summarize decides. The job's device must be the
/// target's.
Status add_log(std::string_view text, const std::string& file, const Job& job, const Strategy& strategy, const Schedule& schedule,
               std::optional<std::int64_t> warm_up, const UserTarget& target, UserRuns& out);

/// Returns the engine that all runs share; an error when they name several (or none is left).
Result<std::string> engine_of(const UserRuns& runs);

}  // namespace espalier::calibrate
