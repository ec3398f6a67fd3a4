// SPDX-License-Identifier: Apache-2.0
// `espalier validate`: predict measured runs, report the error per source and in all (schema espalier.validation/1).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "espalier/planner.h"
#include "runs/mapping.h"
#include "runs/run_record.h"
#include "runs/statistics.h"

namespace espalier::runs {

/// One predicted record. What the record did not measure is empty.
struct RunResult {
  std::string id, source, engine, label, calibration;
  std::string ranking_group;  ///< equal for runs that differ in configuration alone
  std::optional<double> predicted_s, measured_s;
  std::optional<std::int64_t> predicted_bytes, measured_bytes;  ///< both of the measured rank and kind
  std::optional<bool> predicted_fits, measured_fits;
  std::string memory_kind;                                ///< what was measured: "allocated", "reserved" …
  std::int64_t static_bytes = 0, memory_limit_bytes = 0;  ///< predicted states of the fullest rank; what a plan may use
  bool in_calibration = false;
  std::vector<UsedDefault> defaults;
  [[nodiscard]] double time_error() const { return (*predicted_s - *measured_s) / *measured_s; }
  [[nodiscard]] double memory_error() const;
};

struct SkippedRun {
  std::string id, source, reason, detail;
};

struct ValidationSummary {
  std::int64_t records = 0, evaluated = 0;
  ErrorSummary time, memory;
  FeasibilitySummary feasibility;
  RankingSummary ranking;
};

struct Validation {
  ValidationSummary all;
  std::map<std::string, std::int64_t> skipped;  ///< reason -> records
  std::map<std::string, ValidationSummary> by_source;
  std::vector<RunResult> results;  ///< in the order of the records
  std::vector<SkippedRun> skipped_runs;
  std::vector<Error> unreadable;  ///< lines that are no records, with their places; counted among the records and the skipped
};

using PredictFunction = std::function<Result<Prediction>(const Job&, const Strategy&, const Schedule&)>;

struct ValidationOptions {
  int threads = 0;  ///< 0 = hardware; never changes the answer
  std::function<bool()> interrupted;
};

Validation validate_runs(const RunFile& file, const PredictFunction& predict, const ValidationOptions& options = {});

/// The configuration a record is predicted with: as mapped, and what only memory decides (see MappedRun).
Mapping settled_run(const RunRecord& record, const PredictFunction& predict);

/// One record alone, for `inspect run`.
std::variant<RunResult, Skip> evaluate_run(const RunRecord& record, const PredictFunction& predict);

}  // namespace espalier::runs
