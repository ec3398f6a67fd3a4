// SPDX-License-Identifier: Apache-2.0
// Reads one line of a log as a training step of one framework. Each reader answers "not mine", "a step" or "mine, but
// damaged"; a damaged line names the missing word.
#pragma once

#include <string>
#include <string_view>

#include "runlog/step_log.h"

namespace espalier::runlog {

/// Describes how a format reads a line.
enum class Reading { foreign, step, damaged };

struct StepLine {
  Reading reading = Reading::foreign;
  LoggedStep step;
  double resolution = 0;  ///< relative: how coarsely the time is printed
  std::string missing;    ///< part missing in a damaged line: "the word \"tps:\"", "a number after \"tps:\""
};

/// Reads `"iteration 10/100 | … | elapsed time per iteration (ms): 5123.4 | …"`, also as Megatron-DeepSpeed and
/// Megatron-Bridge print it.
StepLine read_megatron(std::string_view line);
/// Reads `step: 10  loss: 9.8934  memory: 47.61GiB(60.15%)  tps: 2,793  …`.
StepLine read_torchtitan(std::string_view line);
/// Reads `iteration: 10 / 100 | … | elapsed_time_per_iteration_ms: 1.2K | …`; releases before 2025 call it
/// `time_per_iteration_ms`.
StepLine read_nanotron(std::string_view line);
/// Reads NeMo 2's `Training epoch 0, iteration 9/99 | … | train_step_timing in s: 6.105 | …`, and NeMo 1's progress
/// bar: `…, train_step_timing in s=6.1]`.
StepLine read_nemo(std::string_view line);
/// Reads Megatron-Bridge's `Step Time : 6.10s GPU utilization: 620.1MODEL_TFLOP/s/GPU`; the line has no step number.
StepLine read_bridge(std::string_view line);
/// Reads the line of DeepSpeed's pipeline engine: `steps: 10 loss: 9.3 iter time (s): 1.234 samples/sec: 12.3`.
StepLine read_deepspeed_pipeline(std::string_view line);
/// Reads DeepSpeed's throughput timer: `[timer.py:260:stop] epoch=0/micro_step=40/global_step=10,
/// RunningAvgSamplesPerSec=25.0, CurrSamplesPerSec=25.7, MemAllocated=4.32GB, MaxMemAllocated=38.49GB`; before 0.7.8
/// `0/10, SamplesPerSec=…`. Samples are those of the whole run; GB are 2^30 bytes.
StepLine read_deepspeed_timer(std::string_view line);
/// Reads DeepSpeed's wall_clock_breakdown: `time (ms) | fwd: 5722.49 | bwd: 16107.19 | … | step: 582.04`, sums over
/// the micro-batches of a step.
StepLine read_deepspeed_breakdown(std::string_view line);

/// Returns a number that a step can have: finite, above 0 and at most `most`.
std::optional<double> positive(const std::optional<double>& value, double most);
inline constexpr double kMaxSeconds = 1e7;  ///< a step's duration

}  // namespace espalier::runlog
