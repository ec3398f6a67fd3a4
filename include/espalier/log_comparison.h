// SPDX-License-Identifier: Apache-2.0
// Is my throughput normal? Compares a framework's log of a run with the prediction for its plan, and with published
// results for similar models and GPUs.
//
// The measured step is the median over the log's steps, except the first ones (runlog/step_log.h). If the log
// prints its arguments (Megatron-LM), they must be the plan's. A log of another configuration is rejected, and the
// error lists every difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "espalier/calibrate.h"
#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/planner.h"
#include "espalier/result.h"

namespace espalier {

/// Holds one row of data/published_runs.tsv.
struct PublishedRun {
  std::string model, device, precision, source, record;
  double active_parameters = 0;  ///< parameters that one token passes through
  std::int64_t experts = 0, devices = 0, sequence = 0;
  double tokens_per_s_per_device = 0;
  /// Returns 6 · active parameters · tokens per second, without attention; comparable across model sizes.
  [[nodiscard]] double tflops_per_device() const { return 6e-12 * active_parameters * tokens_per_s_per_device; }
};
/// Returns all published runs that are shipped.
const std::vector<PublishedRun>& published_runs();
/// Returns the published runs that differ least from the job, at most `most` of them. They use the same family of
/// GPUs ("a100"), are dense or mixtures as the model is, and have 0.4 to 2.5 times its active parameters. The
/// difference is taken in the logarithms of parameters, sequence length and (with a quarter of the weight) number of
/// devices. It grows by 1 where only one of the two trains in 8 bits.
std::vector<PublishedRun> published_like(const Job& job, std::size_t most);

/// Holds a log next to its prediction, and published runs for comparison.
struct LogComparison {
  std::string format;                   ///< "Megatron-LM", "torchtitan", "nanotron"
  std::int64_t steps = 0, warm_up = 0;  ///< lines used, and lines skipped at the start
  double measured_s = 0;                ///< median step
  double spread = 0;                    ///< half the interquartile range over the median
  double drift = 0;                     ///< median of the last third of the lines over that of the first, less 1
  double tokens_per_s_per_device = 0, model_tflops_per_device = 0, mfu = 0;  ///< by the FLOPs of the plan's model
  std::optional<double> logged_tflops_per_device;                            ///< as the framework counts them
  std::optional<std::int64_t> peak_memory_bytes;
  std::int64_t arguments = 0;  ///< arguments of the log that were compared with the plan
  Prediction predicted;
  std::vector<PublishedRun> published;
  /// Lists sentences, most important first: whether the run is normal, and where the difference most likely comes from.
  std::vector<std::string> findings;
};

/// Compares a log with its plan, without the first `warm_up` lines. None: a fifth of them, and steps 1 to 5. Fails
/// with bad_input for a text that is not a log, or a log of another configuration.
Result<LogComparison> compare_log(const Job& job, const Plan& plan, const NamedText& log,
                                  std::optional<std::int64_t> warm_up = std::nullopt);

/// Returns text for a terminal, wrapped at `width` columns; 0 does not wrap.
std::string to_text(const LogComparison& comparison, std::size_t width = 0);
/// Returns JSON of schema espalier.log-comparison/1.
std::string to_json(const LogComparison& comparison);

}  // namespace espalier
