// SPDX-License-Identifier: Apache-2.0
#include "runlog/step_lines.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "base/format.h"
#include "runlog/lines.h"

namespace espalier::runlog {
namespace {

constexpr double kMaxStep = 1e15;
constexpr double kMaxFlops = 1e6;  // TFLOP/s of a device
constexpr double kGiB = 1073741824.0;

std::optional<double> field_number(std::string_view line, std::string_view key) {
  const auto text = bar_field(line, key);
  return text ? leading_number(*text) : std::nullopt;
}

std::optional<std::int64_t> step_number(const std::optional<double>& value) {
  if (!value || *value < 0 || *value > kMaxStep) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

/// Returns a damaged line: `key` is missing, or no number follows it.
StepLine damaged(std::string_view line, std::string_view key) {
  StepLine out;
  out.reading = Reading::damaged;
  const bool there = line.find(key) != std::string_view::npos;
  out.missing = base::cat(there ? "a number after \"" : "the word \"", key, "\"");
  return out;
}

StepLine step_line(std::int64_t step) {
  StepLine out;
  out.reading = Reading::step;
  out.step.step = step;
  return out;
}

bool contains(std::string_view line, std::string_view word) { return line.find(word) != std::string_view::npos; }

/// Returns the number before the slash in "iteration       10/     100 |".
std::optional<std::int64_t> iteration_of(std::string_view line) {
  const auto rest = after(line, "iteration ");
  if (!rest || !contains(*rest, "/")) return std::nullopt;
  return whole_integer(trimmed(rest->substr(0, rest->find('/'))));
}

std::optional<std::int64_t> batch_of(const std::optional<double>& value) {
  const auto batch = positive(value, 1e9);
  return batch ? std::optional<std::int64_t>(std::llround(*batch)) : std::nullopt;
}

}  // namespace

std::optional<double> positive(const std::optional<double>& value, double most) {
  return value && std::isfinite(*value) && *value > 0 && *value <= most ? value : std::nullopt;
}

StepLine read_megatron(std::string_view line) {
  constexpr std::string_view kTime = "elapsed time per iteration";
  const auto iteration = iteration_of(line);
  if (!contains(line, kTime)) {
    const bool like = iteration && (contains(line, "| consumed samples:") || contains(line, "| lm loss:"));
    return like ? damaged(line, "elapsed time per iteration (ms):") : StepLine{};
  }
  auto seconds = positive(field_number(line, "elapsed time per iteration (ms)"), 1e3 * kMaxSeconds);
  if (seconds) *seconds /= 1e3;
  if (!seconds) seconds = positive(field_number(line, "elapsed time per iteration (s)"), kMaxSeconds);
  if (!iteration) return damaged(line, "iteration ");
  if (!seconds) return damaged(line, "elapsed time per iteration (ms):");
  StepLine out = step_line(*iteration);
  out.step.seconds = seconds;
  out.step.tflops_per_device = positive(field_number(line, "throughput per GPU (TFLOP/s/GPU)"), kMaxFlops);
  out.step.global_batch = batch_of(field_number(line, "global batch size"));
  return out;
}

StepLine read_torchtitan(std::string_view line) {
  const std::size_t at = line.find("step:");
  if (at == std::string_view::npos || (at > 0 && (line[at - 1] == '_' || std::isalnum(static_cast<unsigned char>(line[at - 1])))))
    return {};  // "global_step:"
  const auto step = after(line, "step:");
  if (!after(*step, "loss:")) return {};
  const auto number = step_number(leading_number(*step));
  const auto rate = after(line, " tps:");
  const auto tokens = rate ? positive(leading_number(*rate), 1e12) : std::nullopt;
  if (!number) return damaged(line, "step:");
  if (!tokens) return damaged(line, "tps:");
  StepLine out = step_line(*number);
  out.step.tokens_per_s_per_device = tokens;
  if (const auto flops = after(line, "tflops:")) out.step.tflops_per_device = positive(leading_number(*flops), kMaxFlops);
  if (const auto memory = after(line, "memory:")) {
    const auto gib = positive(leading_number(*memory), 1e6);
    if (gib && contains(*memory, "GiB")) out.step.memory_bytes = std::llround(*gib * kGiB);
  }
  return out;
}

StepLine read_nanotron(std::string_view line) {
  constexpr std::array<std::string_view, 2> kTimes = {"elapsed_time_per_iteration_ms", "time_per_iteration_ms"};
  const auto iteration = after(line, "iteration:");
  if (!iteration) return {};
  if (!contains(line, kTimes[1])) return contains(line, "| consumed_tokens:") ? damaged(line, kTimes[0]) : StepLine{};
  const auto number = step_number(leading_number(*iteration));
  if (!number) return damaged(line, "iteration:");
  for (const std::string_view key : kTimes) {
    const auto text = bar_field(line, key);
    const auto ms = text ? positive(human_number(*text), 1e3 * kMaxSeconds) : std::nullopt;
    if (!ms) continue;
    StepLine out = step_line(*number);
    out.step.seconds = *ms / 1e3;
    out.resolution = human_resolution(*text);
    if (const auto flops = bar_field(line, "model_tflops_per_gpu"))
      out.step.tflops_per_device = positive(human_number(*flops), kMaxFlops);
    const auto batch = bar_field(line, "global_batch_size");  // "1.02K" is not exact
    if (batch) out.step.global_batch = batch_of(whole_number(trimmed(*batch)));
    return out;
  }
  return damaged(line, contains(line, kTimes[0]) ? kTimes[0] : kTimes[1]);
}

StepLine read_nemo(std::string_view line) {
  constexpr std::string_view kTime = "train_step_timing in s";
  if (!contains(line, kTime)) return contains(line, "| reduced_train_loss:") ? damaged(line, kTime) : StepLine{};
  auto text = bar_field(line, kTime);
  const auto bar = after(line, "train_step_timing in s=");
  if (!text && bar) text = bar;
  const auto seconds = text ? positive(leading_number(*text), kMaxSeconds) : std::nullopt;
  // A list of all steps has no time of its own.
  if (!seconds) return contains(line, "in s: [") ? StepLine{} : damaged(line, kTime);
  auto number = step_number(field_number(line, "global_step"));
  if (!number && bar)
    if (const auto step = after(line, "global_step=")) number = step_number(leading_number(*step));
  if (!number) number = iteration_of(line);
  if (!number) return damaged(line, "global_step");
  StepLine out = step_line(*number);
  out.step.seconds = seconds;
  out.step.global_batch = batch_of(field_number(line, "global_batch_size"));
  out.step.tflops_per_device = positive(field_number(line, "TFLOPS_per_GPU"), kMaxFlops);
  if (const auto bytes = positive(field_number(line, "peak_memory_usage"), 1e15)) out.step.memory_bytes = std::llround(*bytes);
  return out;
}

StepLine read_bridge(std::string_view line) {
  const auto rest = after(line, "Step Time");
  if (!rest || !contains(line, "TFLOP/s/GPU")) return {};
  const auto value = after(*rest, ":");
  const auto seconds = value ? positive(leading_number(*value), kMaxSeconds) : std::nullopt;
  if (!seconds) return damaged(line, "Step Time :");
  StepLine out = step_line(0);
  out.step.seconds = seconds;
  out.resolution = 0.005 / *seconds;  // two places
  if (const auto flops = after(line, "GPU utilization:"))
    out.step.tflops_per_device = positive(leading_number(*flops), kMaxFlops);
  return out;
}

StepLine read_deepspeed_pipeline(std::string_view line) {
  const auto step = after(line, "steps:");
  if (!step || !after(*step, "loss:")) return {};
  const auto number = step_number(leading_number(*step));
  const auto time = after(line, "iter time (s):");
  const auto seconds = time ? positive(leading_number(*time), kMaxSeconds) : std::nullopt;
  if (!number) return damaged(line, "steps:");
  if (!seconds) return damaged(line, "iter time (s):");
  StepLine out = step_line(*number);
  out.step.seconds = seconds;
  out.resolution = 0.0005 / *seconds;
  return out;
}

StepLine read_deepspeed_timer(std::string_view line) {
  const auto timer = after(line, "timer.py:");
  if (!timer || !contains(line, "SamplesPerSec=")) return {};
  const auto now = after(line, "CurrSamplesPerSec=");
  const auto rate = now ? now : after(line, "SamplesPerSec=");
  const auto samples = positive(leading_number(*rate), 1e12);
  const auto text = after(line, "global_step=");
  const auto slash = timer->find('/');
  const auto old = slash == std::string_view::npos ? std::nullopt : leading_number(timer->substr(slash + 1));
  const auto number = step_number(text ? leading_number(*text) : old);
  if (!number) return damaged(line, "global_step=");
  if (!samples) return damaged(line, "SamplesPerSec=");
  StepLine out = step_line(*number);
  out.step.samples_per_s = samples;
  if (const auto memory = after(line, "MaxMemAllocated="))
    if (const auto gib = positive(leading_number(*memory), 1e6)) out.step.memory_bytes = std::llround(*gib * kGiB);
  return out;
}

StepLine read_deepspeed_breakdown(std::string_view line) {
  const std::size_t begin = line.find("time (ms) |");
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin);
  constexpr std::array<std::array<std::string_view, 2>, 3> kParts = {{{"fwd", "forward"}, {"bwd", "backward"}, {"step", "step"}}};
  double ms = 0;
  for (const auto& names : kParts) {
    auto part = field_number(line, names[0]);
    if (!part) part = field_number(line, names[1]);
    if (!part || !std::isfinite(*part) || *part < 0) return {};  // a line of other timers
    ms += *part;
  }
  if (!positive(ms, 1e3 * kMaxSeconds)) return {};
  StepLine out = step_line(0);
  out.step.seconds = ms / 1e3;
  return out;
}

}  // namespace espalier::runlog
