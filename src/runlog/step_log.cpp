// SPDX-License-Identifier: Apache-2.0
#include "runlog/step_log.h"

#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "runlog/lines.h"

namespace espalier::runlog {
namespace {

constexpr std::size_t kMaxSteps = 1'000'000;
constexpr double kMaxSeconds = 1e7;

/// What a line is to a format.
enum class Reading { foreign, step, damaged };

bool plausible(double value, double most) { return std::isfinite(value) && value > 0 && value <= most; }

std::optional<double> positive(const std::optional<double>& value, double most) {
  return value && plausible(*value, most) ? value : std::nullopt;
}

std::optional<double> field_number(std::string_view line, std::string_view key) {
  const auto text = bar_field(line, key);
  return text ? leading_number(*text) : std::nullopt;
}

// ---- Megatron-LM -------------------------------------------------------------------------------------------------------------

/// "iteration       10/     100 |": the number before the slash.
std::optional<std::int64_t> megatron_iteration(std::string_view line) {
  const auto rest = after(line, "iteration ");
  if (!rest || rest->find('/') == std::string_view::npos) return std::nullopt;
  return whole_integer(trimmed(rest->substr(0, rest->find('/'))));
}

Reading read_megatron(std::string_view line, LoggedStep& out) {
  if (line.find("elapsed time per iteration") == std::string_view::npos) return Reading::foreign;
  const auto iteration = megatron_iteration(line);
  auto seconds = positive(field_number(line, "elapsed time per iteration (ms)"), 1e3 * kMaxSeconds);
  if (seconds) *seconds /= 1e3;
  if (!seconds) seconds = positive(field_number(line, "elapsed time per iteration (s)"), kMaxSeconds);
  if (!iteration || !seconds) return Reading::damaged;
  out.step = *iteration;
  out.seconds = seconds;
  out.tflops_per_device = positive(field_number(line, "throughput per GPU (TFLOP/s/GPU)"), 1e6);
  if (const auto batch = positive(field_number(line, "global batch size"), 1e9)) out.global_batch = std::llround(*batch);
  return Reading::step;
}

/// "[Rank 0] (after 2 iterations) memory (MB) | allocated: … | max allocated: 61234.5 | …": MB are 2^20 bytes (report_memory).
std::optional<std::int64_t> megatron_memory(std::string_view line, std::string_view field) {
  if (line.find("memory (MB)") == std::string_view::npos) return std::nullopt;
  const auto mib = positive(field_number(line, field), 1e8);
  return mib ? std::optional(std::llround(*mib * 1048576.0)) : std::nullopt;
}

// ---- torchtitan --------------------------------------------------------------------------------------------------------------

Reading read_torchtitan(std::string_view line, LoggedStep& out) {
  const auto step = after(line, "step:");
  const auto rate = after(line, " tps:");
  if (!step || !after(*step, "loss:")) return Reading::foreign;
  const auto number = leading_number(*step);
  const auto tokens = rate ? positive(leading_number(*rate), 1e12) : std::nullopt;
  if (!number || *number < 0 || *number > 1e15 || !tokens) return Reading::damaged;
  out.step = static_cast<std::int64_t>(*number);
  out.tokens_per_s_per_device = tokens;
  if (const auto flops = after(line, "tflops:")) out.tflops_per_device = positive(leading_number(*flops), 1e6);
  if (const auto memory = after(line, "memory:")) {
    const auto gib = positive(leading_number(*memory), 1e6);
    if (gib && memory->find("GiB") != std::string_view::npos) out.memory_bytes = std::llround(*gib * 1073741824.0);
  }
  return Reading::step;
}

// ---- nanotron ----------------------------------------------------------------------------------------------------------------

Reading read_nanotron(std::string_view line, LoggedStep& out, double& resolution) {
  const auto iteration = after(line, "iteration:");
  if (!iteration || line.find("time_per_iteration_ms") == std::string_view::npos) return Reading::foreign;
  const auto number = leading_number(*iteration);
  const auto text = bar_field(line, "time_per_iteration_ms");
  const auto ms = text ? positive(human_number(*text), 1e3 * kMaxSeconds) : std::nullopt;
  if (!number || *number < 0 || *number > 1e15 || !ms) return Reading::damaged;
  out.step = static_cast<std::int64_t>(*number);
  out.seconds = *ms / 1e3;
  resolution = std::max(resolution, human_resolution(*text));
  if (const auto flops = bar_field(line, "model_tflops_per_gpu")) out.tflops_per_device = positive(human_number(*flops), 1e6);
  return Reading::step;
}

// ---- all ---------------------------------------------------------------------------------------------------------------------

Reading read_line(LogFormat format, std::string_view line, LoggedStep& out, double& resolution) {
  switch (format) {
    case LogFormat::megatron: return read_megatron(line, out);
    case LogFormat::torchtitan: return read_torchtitan(line, out);
    case LogFormat::nanotron: return read_nanotron(line, out, resolution);
  }
  return Reading::foreign;
}

Error two_formats(const std::string& where, const StepLog& log, LogFormat other, std::int64_t line) {
  return Error{ErrorKind::bad_input, where + ":" + std::to_string(line),
               "a step of " + std::string(to_string(other)) + " after steps of " + std::string(to_string(log.format)),
               "the log of one run", "split the file"};
}

Error no_steps(const std::string& where, const StepLog& log) {
  const std::string hint =
      "Megatron-LM: 'iteration 10/100 | … | elapsed time per iteration (ms): …'; torchtitan: 'step: 10 loss: … tps: …'; "
      "nanotron: 'iteration: 10 / 100 | … | time_per_iteration_ms: …'";
  if (log.damaged == 0)
    return Error{ErrorKind::bad_input, where + ":1", "no line that reports a training step",
                 "step lines of Megatron-LM, torchtitan or nanotron", hint};
  return Error{ErrorKind::bad_input, where + ":" + std::to_string(log.first_damaged_line),
               "a step line that cannot be read, and none that can", "a number, step and time", hint};
}

/// Value at a share of the way from the smallest to the largest.
double quartile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::floor(share * static_cast<double>(values.size() - 1) + 0.5))];
}

std::size_t warm_up_of(const StepLog& log, std::int64_t wanted) {
  const std::size_t most = log.steps.empty() ? 0 : log.steps.size() - 1;
  if (wanted >= 0) return std::min(most, static_cast<std::size_t>(wanted));
  std::size_t lines = (log.steps.size() + 4) / 5;
  const std::int64_t first = log.steps.empty() ? 0 : log.steps.front().step;
  while (first <= 5 && lines < log.steps.size() && log.steps[lines].step <= 5) ++lines;
  return std::min(most, lines);
}

}  // namespace

std::string_view to_string(LogFormat format) {
  switch (format) {
    case LogFormat::megatron: return "Megatron-LM";
    case LogFormat::torchtitan: return "torchtitan";
    case LogFormat::nanotron: return "nanotron";
  }
  return "";
}

Result<StepLog> read_step_log(std::string_view text, const std::string& where) {
  if (Status error = check_size(text, where)) return *error;
  StepLog log;
  Status mixed;
  each_line(text, [&](std::int64_t number, std::string_view line) {
    if (mixed || log.steps.size() >= kMaxSteps) return;
    if (const auto bytes = megatron_memory(line, "max allocated")) log.peak_memory_bytes = std::max(bytes, log.peak_memory_bytes);
    if (const auto bytes = megatron_memory(line, "max reserved")) log.reserved_bytes = std::max(bytes, log.reserved_bytes);
    for (const LogFormat format : {LogFormat::megatron, LogFormat::torchtitan, LogFormat::nanotron}) {
      LoggedStep step;
      const Reading reading = read_line(format, line, step, log.resolution);
      if (reading == Reading::foreign) continue;
      if (reading == Reading::damaged) {
        if (log.damaged++ == 0) log.first_damaged_line = number;
        break;
      }
      if (log.steps.empty()) log.format = format;
      if (log.format != format) mixed = two_formats(where, log, format, number);
      step.line = number;
      if (step.memory_bytes) log.peak_memory_bytes = std::max(step.memory_bytes, log.peak_memory_bytes);
      if (step.memory_bytes && format == LogFormat::torchtitan)
        log.reserved_bytes = log.peak_memory_bytes;  // max_memory_reserved
      log.steps.push_back(step);
      break;
    }
  });
  if (mixed) return *mixed;
  if (log.steps.empty()) return no_steps(where, log);
  return log;
}

StepSummary summarize(const StepLog& log, std::int64_t warm_up) {
  StepSummary out;
  const std::size_t first = warm_up_of(log, warm_up);
  out.warm_up = static_cast<std::int64_t>(first);
  out.steps = static_cast<std::int64_t>(log.steps.size() - first);
  out.memory_bytes = log.peak_memory_bytes;
  if (!log.steps.empty()) out.global_batch = log.steps.back().global_batch;
  std::vector<double> seconds, rates, flops;
  for (std::size_t i = first; i < log.steps.size(); ++i) {
    const LoggedStep& s = log.steps[i];
    if (s.global_batch != out.global_batch) {  // the batch was still growing
      --out.steps;
      ++out.warm_up;
      continue;
    }
    if (s.seconds) seconds.push_back(*s.seconds);
    if (s.tokens_per_s_per_device) rates.push_back(*s.tokens_per_s_per_device);
    if (s.tflops_per_device) flops.push_back(*s.tflops_per_device);
  }
  if (!seconds.empty()) out.seconds = base::median(seconds);
  if (!rates.empty()) out.tokens_per_s_per_device = base::median(rates);
  if (!flops.empty()) out.tflops_per_device = base::median(flops);
  const std::vector<double>& timed = seconds.empty() ? rates : seconds;
  if (!timed.empty()) out.spread = 0.5 * (quartile(timed, 0.75) - quartile(timed, 0.25)) / base::median(timed);
  return out;
}

}  // namespace espalier::runlog
