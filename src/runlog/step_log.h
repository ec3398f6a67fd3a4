// SPDX-License-Identifier: Apache-2.0
// Reads step times from the logs that training frameworks print. A log states how long steps took, but not what was
// trained. The configuration comes from elsewhere (a job file with strategy flags, or a plan).
//
//   Megatron-LM           iteration  10/ 100 | consumed samples: … | elapsed time per iteration (ms): 5123.4 |
//                         throughput per GPU (TFLOP/s/GPU): 412.3 | … | global batch size: 128 | …
//                         [Rank 0] (after 2 iterations) memory (MB) | allocated: … | max allocated: … |
//   torchtitan            step: 10  loss: 9.8934  memory: 47.61GiB(60.15%)  tps: 2,793  tflops: 161.76  mfu: 51.85%
//   nanotron              iteration: 10 / 100 | … | elapsed_time_per_iteration_ms: 1.2K | tokens_per_sec: 45.1K | … |
//                         model_tflops_per_gpu: …
//   NeMo                  Training epoch 0, iteration 9/99 | … | global_step: 9 | … | train_step_timing in s: 6.105 | …
//   Megatron-Bridge       Step Time : 6.10s GPU utilization: 620.1MODEL_TFLOP/s/GPU    and the line of Megatron-LM
//   DeepSpeed             [timer.py:260:stop] epoch=0/micro_step=40/global_step=10, RunningAvgSamplesPerSec=25.0,
//                         CurrSamplesPerSec=25.7, …
//                         steps: 10 loss: 9.3 iter time (s): 1.234 samples/sec: 12.3
//                         time (ms) | fwd: … | bwd: … | … | step: …
//   Hugging Face Trainer  120/690 [05:31<26:02, 2.74s/it]
//                         {'train_runtime': …, 'train_steps_per_second': 0.365, …}   (trainer_log.h)
//   MLPerf                :::MLLOG {"time_ms": …, "key": "block_stop", …}   (mlperf_log.h)
//
// The tps of torchtitan is tokens per second and device. Since nanotron prints three significant digits, the median
// over its steps is as coarse. The lines that all ranks print of one step count once: the median of their rates, the
// largest of their peaks.
//
// One run may print lines of several of them (Megatron-DeepSpeed, Megatron-Bridge, a Trainer on DeepSpeed), and the
// finest counts. Two of the first four in one text are two runs.
//
// Logs are interleaved, cut and coloured. A line that begins like a step and cannot be read is counted as damaged.
// Only a log without a single readable step is an error, which names the missing word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"

namespace espalier::runlog {

enum class LogFormat : std::uint8_t { megatron, torchtitan, nanotron, nemo, bridge, deepspeed, trainer, mlperf };
std::string_view to_string(LogFormat format);  ///< "Megatron-LM", "torchtitan", …, "Hugging Face Trainer", "MLPerf"

/// Holds the log's data of one step (or of the mean of the steps since the line before). One of the three times is
/// present.
struct LoggedStep {
  std::int64_t line = 0, step = 0;
  std::optional<double> seconds;                  ///< seconds of one iteration
  std::optional<double> tokens_per_s_per_device;  ///< where the log has no iteration time
  std::optional<double> samples_per_s;            ///< rate of the whole run, where the log has neither
  std::optional<double> tflops_per_device;        ///< as the framework counts them
  std::optional<std::int64_t> memory_bytes;       ///< peak so far, of the rank that logs
  std::optional<std::int64_t> global_batch;       ///< samples
};

struct StepLog {
  LogFormat format = LogFormat::megatron;
  std::vector<LoggedStep> steps;                  ///< in the order of the file
  std::optional<std::int64_t> peak_memory_bytes;  ///< largest over ranks and lines
  std::optional<std::int64_t> reserved_bytes;     ///< peak of the allocator, where the log has it
  double resolution = 0;                          ///< relative: how coarsely step times are printed
  std::int64_t damaged = 0, first_damaged_line = 0;
};

/// Returns the seconds of one iteration of `samples` samples and `tokens_per_device` tokens per device; nothing where
/// the step has no time.
std::optional<double> seconds_of(const LoggedStep& step, double tokens_per_device, double samples);

Result<StepLog> read_step_log(std::string_view text, const std::string& where);

/// Holds the figures of a run. The first steps are left out, since they hold compilation, allocation and autotuning.
struct StepSummary {
  /// Counts the steps used and the steps left out.
  std::int64_t steps = 0, warm_up = 0;
  std::optional<double> seconds, tokens_per_s_per_device, samples_per_s, tflops_per_device;  ///< medians
  double spread = 0;  ///< half the distance between the quartiles over the median
  std::optional<std::int64_t> memory_bytes, global_batch;
};
/// Summarises a log. `warm_up` is the number of lines to leave out. None: a fifth of the lines, and those of iterations
/// 1 to 5, as long as a line is left.
StepSummary summarize(const StepLog& log, std::optional<std::int64_t> warm_up = std::nullopt);

}  // namespace espalier::runlog
