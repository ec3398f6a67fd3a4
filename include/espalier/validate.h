// SPDX-License-Identifier: Apache-2.0
// Predictions against measurements: each measured run is mapped to a job and a configuration, predicted, and compared.
//
//   error      e = (predicted − measured) / measured          ape = |e|          accuracy = max(0, 1 − ape)
//              so that an error above 100 % counts as 100 % in the mean accuracy: one run that is predicted three times
//              as long as it took
//              would otherwise cancel two that are predicted exactly
//   mape       mean of ape; bias = mean of e; p90: the ⌈0.9 n⌉-th smallest ape; median: mean of the middle two for even
//              n
//   τ_b        Kendall's rank correlation with ties (Kendall 1945)
//   regret     1 − t_best / t_chosen: measured throughput lost by taking what the prediction ranks first
//
// Nothing is guessed silently: a value that a record does not hold comes from a cited default
// (data/framework_defaults.yaml) and is listed, or the record is skipped with its reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "espalier/calibration.h"
#include "espalier/job.h"
#include "espalier/measured_runs.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier {

/// A value that the record did not hold.
struct UsedDefault {
  std::string field, value, source;
};

/// A measured run as a job and a configuration.
struct MappedRun {
  Job job;
  Strategy strategy;
  Schedule schedule;
  /// The configuration as a document where devices, or layers of stages, are not those of the uniform one.
  std::optional<Plan> plan;
  bool wan_latency = false;  ///< between stages: messages follow each other (cost/cluster_costs.h)
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
  /// The record is silent about a switch that recomputes all blocks: on where the run, which was measured, does not fit
  /// without.
  bool recompute_if_needed = false;
};

/// Why a record is not predicted. `reason` is short and the same for all alike (it is counted); `detail` has the
/// numbers.
struct RunSkip {
  std::string reason, detail;
};

using RunMapping = std::variant<MappedRun, RunSkip>;
/// The job and the configuration that a record is predicted with, or why it is not.
RunMapping map_run(const RunRecord& record);

/// Errors of one kind of prediction, over `n` runs; shares, so that 0.04 is 4 %. The equations stand above.
struct ErrorSummary {
  std::int64_t n = 0;
  double mean_accuracy = 0, median_accuracy = 0, mape = 0, median_ape = 0, p90_ape = 0, bias = 0;
};
/// Whether runs fit, predicted and measured: a run that went out of memory did not fit.
struct FeasibilitySummary {
  std::int64_t true_fit = 0, false_fit = 0, true_oom = 0, false_oom = 0;
  [[nodiscard]] std::int64_t n() const { return true_fit + false_fit + true_oom + false_oom; }
  [[nodiscard]] double accuracy() const {
    return n() > 0 ? static_cast<double>(true_fit + true_oom) / static_cast<double>(n()) : 0;
  }
  void add(bool predicted_fits, bool measured_fits);
};

/// How well predictions rank the runs that differ in configuration alone.
struct RankingSummary {
  std::int64_t groups = 0;
  double kendall_tau = 0, mean_top1_regret = 0, max_top1_regret = 0;
};

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

/// A record that was not predicted, and why.
struct SkippedRun {
  std::string id, source, reason, detail;
};

/// The errors of all records together, or of one source.
struct ValidationSummary {
  std::int64_t records = 0, evaluated = 0;
  ErrorSummary time, memory;
  FeasibilitySummary feasibility;
  RankingSummary ranking;
};

/// What was predicted, skipped and not readable.
struct Validation {
  ValidationSummary all;
  std::map<std::string, std::int64_t> skipped;  ///< reason -> records
  std::map<std::string, ValidationSummary> by_source;
  std::vector<RunResult> results;  ///< in the order of the records
  std::vector<SkippedRun> skipped_runs;
  std::vector<Error> unreadable;  ///< lines that are no records, with their places; counted among the records and the
                                  ///< skipped
};

struct ValidationOptions {
  int threads = 0;                    ///< 0 = hardware; never changes the answer
  std::function<bool()> interrupted;  ///< polled all the time, from any thread; true stops
  /// Used for the runs of its device and engine; others are predicted with what ships. Null: none.
  std::shared_ptr<const Calibration> calibration = nullptr;
};
/// Predicts all runs. Deterministic for any number of threads.
Validation validate_runs(const RunFile& runs, const ValidationOptions& options = {});

/// For people, no line longer than `width` columns (0: as wide as it is). `worst`: how many of the largest time errors
/// to list.
std::string to_text(const Validation& validation, std::size_t worst = 0, std::size_t width = 0);
/// schema espalier.validation/1
std::string to_json(const Validation& validation);

}  // namespace espalier
