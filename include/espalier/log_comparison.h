// SPDX-License-Identifier: Apache-2.0
// Is my throughput normal? A framework's log of a run beside the prediction of its plan, and beside what others have
// published of models and GPUs like it.
//
// The measured step is the median over the log's steps without its first ones (runlog/step_log.h). Where the log prints
// its arguments (Megatron-LM), they must be the plan's: a log of another configuration is refused with everything in
// which it differs.
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

/// A line of data/published_runs.tsv.
struct PublishedRun {
  std::string model, device, precision, source, record;
  double active_parameters = 0;  ///< that one token passes through
  std::int64_t experts = 0, devices = 0, sequence = 0;
  double tokens_per_s_per_device = 0;
  /// 6 · active parameters · tokens per second, without attention: what models of unlike size can be compared by.
  [[nodiscard]] double tflops_per_device() const { return 6e-12 * active_parameters * tokens_per_s_per_device; }
};
/// All that ship.
const std::vector<PublishedRun>& published_runs();
/// Those of the same family of GPUs ("a100"), dense or mixtures as the model is, and of 0.4 to 2.5 times its active
/// parameters, that differ least: in the logarithms of parameters, sequence length and (a quarter of its weight) number
/// of devices, and by 1 where one of both trains in 8 bits. At most `most`.
std::vector<PublishedRun> published_like(const Job& job, std::size_t most);

struct LogComparison {
  std::string format;                   ///< "Megatron-LM", "torchtitan", "nanotron"
  std::int64_t steps = 0, warm_up = 0;  ///< lines used, and left out at the beginning
  double measured_s = 0;                ///< median of a step
  double spread = 0;                    ///< half the distance between the quartiles over the median
  double drift = 0;                     ///< median of the last third of the lines over that of the first, less 1
  double tokens_per_s_per_device = 0, model_tflops_per_device = 0, mfu = 0;  ///< by the FLOPs of the plan's model
  std::optional<double> logged_tflops_per_device;                            ///< as the framework counts them
  std::optional<std::int64_t> peak_memory_bytes;
  std::int64_t arguments = 0;  ///< of the log that were compared with the plan
  Prediction predicted;
  std::vector<PublishedRun> published;
  std::vector<std::string>
      findings;  ///< sentences, what weighs most first: normal or not, and where the difference most likely lies
};

/// `warm_up`: lines to leave out; below 0: as runlog::summarize decides. bad_input: no log, or one of another
/// configuration.
Result<LogComparison> compare_log(const Job& job, const Plan& plan, const NamedText& log, std::int64_t warm_up = -1);

/// For people; no line longer than `width` columns, 0: as wide as it is.
std::string to_text(const LogComparison& comparison, std::size_t width = 0);
/// schema espalier.log-comparison/1
std::string to_json(const LogComparison& comparison);

}  // namespace espalier
