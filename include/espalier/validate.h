// SPDX-License-Identifier: Apache-2.0
// Compares predictions with measurements: each measured run is mapped to a job and a configuration, and predicted.
//
//   error      e = (predicted − measured) / measured          ape = |e|          accuracy = max(0, 1 − ape)
//              An error above 100 % counts as 100 % in the mean accuracy. One run predicted at three times its length
//              would otherwise cancel two that are predicted exactly.
//   mape       mean of ape; bias = mean of e; p90: the ⌈0.9 n⌉-th smallest ape
//   median     mean of the middle two for even n
//   τ_b        Kendall's rank correlation with ties (Kendall 1945)
//   regret     1 − t_best / t_chosen: measured throughput lost by choosing the configuration that the prediction
//              ranks first.
//
// Nothing is guessed silently. A value that a record lacks comes from a cited default (data/framework_defaults.yaml)
// and is listed, or the record is skipped with its reason.
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

/// Holds the default for a value that a record lacks, and its source.
struct UsedDefault {
  std::string field, value, source;
};

/// Holds a measured run as a job and a configuration.
struct MappedRun {
  Job job;
  Strategy strategy;
  Schedule schedule;
  /// Holds the configuration as a document, if its devices or the layers of its stages differ from the uniform plan.
  std::optional<Plan> plan;
  bool wan_latency = false;  ///< messages between stages follow each other (cost/cluster_costs.h)
  std::vector<UsedDefault> defaults;
  bool time_known = true;     ///< the number of devices comes from the record, and is not assumed to fit its memory
  bool memory_known = false;  ///< the record states the memory of the device
  /// False: the record does not state which operators are recomputed, so the kept activations are unknown.
  bool memory_comparable = true;
  bool peak_comparable = true;  ///< false: it is unknown how the record's peak was taken
  std::string memory_rank = "fullest";
  std::string memory_kind = "allocated";  ///< "allocated", "reserved", "device" (record_words.h)
  double memory_unit_bytes = 1073741824.0;
  /// The record states that some blocks are recomputed, but not how many. evaluate_run()
  /// chooses as many as memory requires.
  bool recompute_what_does_not_fit = false;
  /// The record does not mention a switch that recomputes all blocks. It is on if the run, which was
  /// measured, does not fit without it.
  bool recompute_if_needed = false;
};

/// Holds the reason why a record is not predicted. `reason` is short and the same for all similar records, because it
/// is counted; `detail` has the numbers.
struct RunSkip {
  std::string reason, detail;
};

using RunMapping = std::variant<MappedRun, RunSkip>;
/// Returns the job and the configuration with which a record is predicted, or why it is not predicted.
RunMapping map_run(const RunRecord& record);

/// Holds the errors of one kind of prediction over `n` runs, as shares: 0.04 is 4 %. The equations are at the top.
struct ErrorSummary {
  std::int64_t n = 0;
  double mean_accuracy = 0, median_accuracy = 0, mape = 0, median_ape = 0, p90_ape = 0, bias = 0;
};
/// Counts whether runs fit, predicted and measured. A run that ran out of memory did not fit.
struct FeasibilitySummary {
  std::int64_t true_fit = 0, false_fit = 0, true_oom = 0, false_oom = 0;
  [[nodiscard]] std::int64_t n() const { return true_fit + false_fit + true_oom + false_oom; }
  [[nodiscard]] double accuracy() const {
    return n() > 0 ? static_cast<double>(true_fit + true_oom) / static_cast<double>(n()) : 0;
  }
  void add(bool predicted_fits, bool measured_fits);
};

/// Measures how well predictions rank the runs that differ only in configuration.
struct RankingSummary {
  std::int64_t groups = 0;
  double kendall_tau = 0, mean_top1_regret = 0, max_top1_regret = 0;
};

/// Holds one predicted record. Fields that the record did not measure are empty.
struct RunResult {
  std::string id, source, engine, label, calibration;
  std::string ranking_group;  ///< equal for runs that differ only in configuration
  std::optional<double> predicted_s, measured_s;
  std::optional<std::int64_t> predicted_bytes, measured_bytes;  ///< both for the measured rank and kind
  std::optional<bool> predicted_fits, measured_fits;
  std::string memory_kind;                                ///< kind of the measured peak: "allocated", "reserved" …
  std::int64_t static_bytes = 0, memory_limit_bytes = 0;  ///< predicted states of the fullest rank; usable memory
  bool in_calibration = false;
  std::vector<UsedDefault> defaults;
  [[nodiscard]] double time_error() const { return (*predicted_s - *measured_s) / *measured_s; }
  [[nodiscard]] double memory_error() const;
};

/// Holds a record that was not predicted, and the reason.
struct SkippedRun {
  std::string id, source, reason, detail;
};

/// Holds the errors of all records together, or of one source.
struct ValidationSummary {
  std::int64_t records = 0, evaluated = 0;
  ErrorSummary time, memory;
  FeasibilitySummary feasibility;
  RankingSummary ranking;
};

/// Holds all records: predicted, skipped and unreadable.
struct Validation {
  ValidationSummary all;
  std::map<std::string, std::int64_t> skipped;  ///< reason -> records
  std::map<std::string, ValidationSummary> by_source;
  std::vector<RunResult> results;  ///< in the order of the records
  std::vector<SkippedRun> skipped_runs;
  /// Lists the lines that are not records, with their places; they count among the records and the skipped ones.
  std::vector<Error> unreadable;
};

/// Holds the options of validate_runs().
struct ValidationOptions {
  int threads = 0;                    ///< 0: hardware threads; never changes the answer
  std::function<bool()> interrupted;  ///< polled continuously, from any thread; true stops
  /// Applies to the runs of its device and engine; other runs are predicted with shipped values. Null: none.
  std::shared_ptr<const Calibration> calibration = nullptr;
};
/// Predicts all runs. The result is the same for any number of threads.
Validation validate_runs(const RunFile& runs, const ValidationOptions& options = {});

/// Returns text for a terminal, wrapped at `width` columns (0 does not wrap). `worst` is the number of
/// largest time errors to list.
std::string to_text(const Validation& validation, std::size_t worst = 0, std::size_t width = 0);
/// Returns JSON of schema espalier.validation/1.
std::string to_json(const Validation& validation);

}  // namespace espalier
