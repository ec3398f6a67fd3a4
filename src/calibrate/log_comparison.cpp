// SPDX-License-Identifier: Apache-2.0
#include "espalier/log_comparison.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/format.h"
#include "base/statistics.h"
#include "calibrate/log_arguments.h"
#include "plan/step_tokens.h"
#include "planner/plan_layers.h"
#include "runlog/step_log.h"

namespace espalier {
namespace {

constexpr std::size_t kPublished = 6;
constexpr double kUsual = 0.1;       // a gap that needs no explanation
constexpr double kUnsteady = 0.03;   // spread of steps that is worth reporting
constexpr double kDrifts = 0.02;     // ratio of the last third of steps to the first
constexpr double kOtherCount = 0.1;  // FLOPs of a step, framework against plan
// Above this share of a device's memory, allocators begin to free and allocate again.
constexpr double kNearlyFull = 0.95;
constexpr double kSlowKernels = 1.35;  // above it, compute alone is an unlikely cause

// ---- figures ------------------------------------------------------------------------------------------------------

/// Returns one value for each step that has one.
std::vector<double> all_seconds(const runlog::StepLog& log, std::int64_t warm_up, double tokens_per_device, double samples) {
  std::vector<double> out;
  for (std::size_t k = static_cast<std::size_t>(warm_up); k < log.steps.size(); ++k)
    if (const auto seconds = runlog::seconds_of(log.steps[k], tokens_per_device, samples)) out.push_back(*seconds);
  return out;
}

double drift_of(const std::vector<double>& seconds) {
  const std::size_t third = seconds.size() / 3;
  if (third < 3) return 0;
  const auto end = static_cast<std::ptrdiff_t>(third);
  return base::median({seconds.end() - end, seconds.end()}) / base::median({seconds.begin(), seconds.begin() + end}) - 1;
}

// ---- judgement ----------------------------------------------------------------------------------------------------

std::string ms(double seconds) { return base::seconds(std::llround(seconds * 1e9)); }

void judge_time(LogComparison& c) {
  const double predicted = static_cast<double>(c.predicted.iteration_ns) * 1e-9, gap = c.measured_s / predicted - 1;
  const Confidence& range = c.predicted.confidence;
  const std::string interval =
      cat("the ", std::llround(range.level * 100), " % interval of the prediction, ", ms(range.low_s), " to ", ms(range.high_s));
  if (c.measured_s >= range.low_s && c.measured_s <= range.high_s) {
    const std::string by = cat(gap >= 0 ? "+" : "", percent(gap), " against the prediction itself");
    if (std::abs(gap) <= kUsual)
      c.findings.push_back(cat("Normal: inside ", interval, "; ", by, "."));
    else
      c.findings.push_back(
          cat("Possible, but not as predicted: ", by, ", inside ", interval, ", which is wide (", range.basis, ")."));
  } else if (c.measured_s < range.low_s) {
    c.findings.push_back(cat("Faster than ", interval,
                             ": is this the plan that ran? Fewer tokens per step, another precision or an engine that overlaps "
                             "more would explain it."));
  } else {
    c.findings.push_back(cat("Slower than ", interval, ": ", percent(gap), " above the prediction."));
  }
}

/// Computes how much longer each part would have to take to explain the whole gap.
void judge_parts(LogComparison& c) {
  const double gap = c.measured_s - static_cast<double>(c.predicted.iteration_ns) * 1e-9;
  if (gap <= kUsual * static_cast<double>(c.predicted.iteration_ns) * 1e-9) return;
  const Breakdown& b = c.predicted.breakdown;
  const std::pair<const char*, std::int64_t> parts[] = {{"compute", b.compute_ns},
                                                        {"exposed communication", b.exposed_communication_ns},
                                                        {"host work and launches", b.other_ns + b.step_host_ns}};
  std::string text;
  for (const auto& [name, ns] : parts) {
    const double factor = ns > 0 ? 1 + gap / (static_cast<double>(ns) * 1e-9) : 0;
    if (factor == 0 || factor > 20) continue;
    text += cat(text.empty() ? "" : "; ", name, " ", base::fixed(factor, 2), " times its prediction");
    if (name == parts[0].first && factor > kSlowKernels) text += " (more than clocks and kernels usually account for)";
  }
  if (!text.empty()) c.findings.push_back(cat("If one part explained the whole gap: ", text, "."));
}

void judge_steadiness(LogComparison& c) {
  if (c.spread > kUnsteady)
    c.findings.push_back(cat(
        "Steps vary by ", percent(c.spread),
        " in either direction: something interferes at times (another job on the network, data loading, a rank that pauses)."));
  if (c.drift > kDrifts)
    c.findings.push_back(
        cat("Steps became ", percent(c.drift),
            " longer from the first to the last third of the log: clocks that throttle, or memory that fragments."));
}

void judge_memory(LogComparison& c, const Job& job) {
  if (!c.peak_memory_bytes) return;
  const auto own = static_cast<double>(*c.peak_memory_bytes),
             whole = static_cast<double>(job.cluster.groups.front().device.memory.count());
  const double gap = own / static_cast<double>(c.predicted.peak_memory_bytes) - 1;
  if (own > kNearlyFull * whole)
    c.findings.push_back(cat("The memory peak, ", base::gib(*c.peak_memory_bytes), ", is ", percent(own / whole),
                             " of the device's memory: allocators then free and reallocate, which takes time."));
  else if (std::abs(gap) > 0.15)
    c.findings.push_back(cat("The memory peak, ", base::gib(*c.peak_memory_bytes), ", is ", percent(gap), " off the predicted ",
                             base::gib(c.predicted.peak_memory_bytes), ": recomputation or ZeRO may differ from the plan's."));
}

void judge_flops(LogComparison& c, double flops_per_device) {
  if (!c.logged_tflops_per_device) return;
  const double logged = *c.logged_tflops_per_device * 1e12 * c.measured_s / flops_per_device;
  if (std::abs(logged - 1) > kOtherCount)
    c.findings.push_back(
        cat("The log counts ", base::fixed(logged, 2),
            " times the FLOPs of the plan's model per step: the model, sequence or batch differs, or recomputation is counted."));
}

void judge_published(LogComparison& c) {
  if (c.published.empty()) return;
  std::vector<double> rates;
  for (const PublishedRun& run : c.published) rates.push_back(run.tflops_per_device());
  const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
  c.findings.push_back(cat("Similar published runs reach ", base::fixed(*least, 0), " to ", base::fixed(*most, 0),
                           " TFLOP/s per device by 6 · parameters · tokens; this log reaches ",
                           base::fixed(c.model_tflops_per_device, 0), " by the model's own count, attention included."));
}

Status read_log(const Job& job, const Plan& plan, const NamedText& log, std::optional<std::int64_t> warm_up, LogComparison& c) {
  const auto one = planner::uniform_configuration(plan);
  const auto compared =
      calibrate::compare_arguments(log.text, log.name,
                                   {job, plan.training, one ? &one->first : nullptr, one ? &one->second : nullptr, "the plan",
                                    "compare it with the plan that ran: espalier estimate JOB.yaml --tp … -o FOLDER"});
  if (!compared) return compared.error();
  c.arguments = *compared;
  const auto read = runlog::read_step_log(log.text, log.name);
  if (!read) return read.error();
  const runlog::StepSummary s = runlog::summarize(*read, warm_up);
  if (s.global_batch && *s.global_batch != plan.training.global_batch)
    return Error{ErrorKind::bad_input, log.name, cat("global batch ", *s.global_batch),
                 cat(plan.training.global_batch, ", as in the plan"), ""};
  const double tokens_per_device = tokens_of_step(plan.training) / static_cast<double>(job.cluster.devices());
  const std::vector<double> seconds =
      all_seconds(*read, s.warm_up, tokens_per_device, static_cast<double>(plan.training.global_batch));
  if (seconds.empty())
    return Error{ErrorKind::bad_input, log.name, "no step after the warm-up", "steps with their times", "--warm-up 0"};
  c.format = runlog::to_string(read->format);
  c.steps = s.steps;
  c.warm_up = s.warm_up;
  c.measured_s = base::median(seconds);
  c.spread = s.spread;
  c.drift = drift_of(seconds);
  c.logged_tflops_per_device = s.tflops_per_device;
  c.peak_memory_bytes = read->peak_memory_bytes ? read->peak_memory_bytes : s.memory_bytes;
  return {};
}

}  // namespace

Result<LogComparison> compare_log(const Job& job, const Plan& plan, const NamedText& log, std::optional<std::int64_t> warm_up) {
  LogComparison c;
  if (Status status = read_log(job, plan, log, warm_up, c); !status.ok()) return status.error();
  auto simulated = simulate(job, plan);
  if (!simulated) return simulated.error();
  c.predicted = simulated->prediction;
  const double scale = static_cast<double>(c.predicted.iteration_ns) * 1e-9 / c.measured_s;
  c.tokens_per_s_per_device = c.predicted.tokens_per_s_per_device * scale;
  c.model_tflops_per_device = c.predicted.model_tflops_per_device * scale;
  c.mfu = c.predicted.mfu * scale;
  c.published = published_like(job, kPublished);
  judge_time(c);
  judge_parts(c);
  judge_steadiness(c);
  judge_memory(c, job);
  judge_flops(c, c.model_tflops_per_device * 1e12 * c.measured_s);
  judge_published(c);
  return c;
}

}  // namespace espalier
