// SPDX-License-Identifier: Apache-2.0
#include "runlog/step_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/format.h"
#include "base/statistics.h"
#include "runlog/lines.h"
#include "runlog/mlperf_log.h"
#include "runlog/step_lines.h"
#include "runlog/trainer_log.h"

namespace espalier::runlog {
namespace {

constexpr std::size_t kMaxSteps = 1'000'000;
constexpr std::size_t kLookBack = 64;  // steps to which the line of a slower rank may belong

/// Lists the sources that print steps one per line, the finest first. The first kRuns are frameworks; a run has only
/// one of them.
struct Source {
  LogFormat format;
  StepLine (*read)(std::string_view);
  bool numbered;  ///< its lines have the number of the step
  const char* example;
};
constexpr std::size_t kRuns = 4;
constexpr std::array<Source, 8> kSources = {
    {{LogFormat::megatron, read_megatron, true, "iteration 10/100 | … | elapsed time per iteration (ms): 5123.4 | …"},
     {LogFormat::torchtitan, read_torchtitan, true, "step: 10  loss: 9.89  memory: 47.61GiB(60.15%)  tps: 2,793"},
     {LogFormat::nanotron, read_nanotron, true, "iteration: 10 / 100 | … | elapsed_time_per_iteration_ms: 1.2K | …"},
     {LogFormat::nemo, read_nemo, true, "iteration 9/99 | … | global_step: 9 | … | train_step_timing in s: 6.105"},
     {LogFormat::deepspeed, read_deepspeed_pipeline, true, "steps: 10 loss: 9.3 iter time (s): 1.234 samples/sec: 12.3"},
     {LogFormat::deepspeed, read_deepspeed_timer, true, "[timer.py:260:stop] …/global_step=10, …, CurrSamplesPerSec=25.7, …"},
     {LogFormat::bridge, read_bridge, false, "Step Time : 6.10s GPU utilization: 620.1MODEL_TFLOP/s/GPU"},
     {LogFormat::deepspeed, read_deepspeed_breakdown, false, "time (ms) | fwd: 5722.49 | bwd: 16107.19 | … | step: 582.04"}}};

/// Reads "[Rank 0] (after 2 iterations) memory (MB) | allocated: … | max allocated: 61234.5 | …", where MB are 2^20
/// bytes (report_memory).
std::optional<std::int64_t> megatron_memory(std::string_view line, std::string_view field) {
  if (line.find("memory (MB)") == std::string_view::npos) return std::nullopt;
  const auto text = bar_field(line, field);
  const auto mib = text ? positive(leading_number(*text), 1e8) : std::nullopt;
  return mib ? std::optional(std::llround(*mib * 1048576.0)) : std::nullopt;
}

/// Reads "… NAME = 512" or "… NAME ..... 512".
std::optional<std::int64_t> batch_after(std::string_view line, std::string_view name, std::string_view filling) {
  const auto rest = after(line, name);
  const std::size_t begin = rest ? rest->find_first_not_of(filling) : std::string_view::npos;
  if (begin == std::string_view::npos || begin == 0) return std::nullopt;
  const auto batch = whole_integer(trimmed(rest->substr(begin)));
  return batch && *batch > 0 && *batch < 1'000'000'000 ? batch : std::nullopt;
}

/// Returns the global batch that DeepSpeed's configuration or the Trainer's banner states.
std::optional<std::int64_t> stated_batch(std::string_view line) {
  const auto own = batch_after(line, " train_batch_size ", ". ");
  return own ? own : batch_after(line, "Total train batch size (w. parallel, distributed & accumulation)", "= ");
}

/// Returns which rank printed a line, from the launcher's prefix ("3: ", "[rank3]:", "[default3]:"); empty without
/// one.
std::string printer_of(std::string_view line) {
  std::string out;
  std::size_t digits = 0;
  while (digits < line.size() && line[digits] >= '0' && line[digits] <= '9') ++digits;
  if (digits > 0 && line.substr(digits).starts_with(": ")) {  // srun --label
    out = line.substr(0, digits + 1);
    line.remove_prefix(digits + 2);
  }
  const std::size_t close = line.find("]:");
  if (line.starts_with("[") && close < 20) out += line.substr(0, close + 1);
  return out;
}

/// Holds the lines of one step, which several ranks may have printed.
struct PrintedStep {
  LoggedStep first;
  std::vector<double> seconds, tokens, samples, flops;
  std::set<std::string> printers;

  void add(const LoggedStep& step, std::string printer) {
    if (printers.empty()) first = step;
    printers.insert(std::move(printer));
    if (step.seconds) seconds.push_back(*step.seconds);
    if (step.tokens_per_s_per_device) tokens.push_back(*step.tokens_per_s_per_device);
    if (step.samples_per_s) samples.push_back(*step.samples_per_s);
    if (step.tflops_per_device) flops.push_back(*step.tflops_per_device);
    if (step.memory_bytes) first.memory_bytes = std::max(step.memory_bytes, first.memory_bytes);
  }
  [[nodiscard]] LoggedStep step() const {
    LoggedStep out = first;
    if (!seconds.empty()) out.seconds = base::median(seconds);
    if (!tokens.empty()) out.tokens_per_s_per_device = base::median(tokens);
    if (!samples.empty()) out.samples_per_s = base::median(samples);
    if (!flops.empty()) out.tflops_per_device = base::median(flops);
    return out;
  }
};

/// Holds the steps of one source, and its damaged lines.
struct SourceSteps {
  std::vector<PrintedStep> steps;
  double resolution = 0;
  std::int64_t damaged = 0, first_damaged_line = 0;
  std::string missing;  ///< from the first of them

  /// Adds a step. A repeated step of another printer is the same step. One of the same printer belongs to a run that
  /// began again.
  void add(const LoggedStep& step, const std::string& printer) {
    const std::size_t oldest = steps.size() - std::min(steps.size(), printer.empty() ? 1 : kLookBack);
    for (std::size_t i = steps.size(); i-- > oldest;)
      if (steps[i].first.step == step.step && steps[i].printers.count(printer) == 0) return steps[i].add(step, printer);
    if (steps.size() == kMaxSteps) return;
    steps.emplace_back().add(step, printer);
  }
};

class LogReader {
 public:
  explicit LogReader(std::string where) : where_(std::move(where)) {}
  void line(std::int64_t number, std::string_view line);
  Result<StepLog> finish();

 private:
  void take(std::size_t source, std::int64_t number, StepLine line, std::string_view text);
  void choose(std::size_t source);
  void choose(LogFormat format, std::vector<LoggedStep> steps);
  [[nodiscard]] Error none() const;

  std::string where_;
  std::array<SourceSteps, kSources.size()> found_;
  TrainerLog trainer_;
  MlperfLog mlperf_;
  StepLog log_;
  std::optional<std::int64_t> batch_;    ///< stated by the log apart from the steps
  std::optional<double> bridge_tflops_;  ///< from the line before Megatron's
  std::optional<std::size_t> run_;       ///< the framework of the first step
  Status mixed_;
};

void LogReader::line(std::int64_t number, std::string_view line) {
  if (!mixed_.ok()) return;
  if (const auto bytes = megatron_memory(line, "max allocated")) log_.peak_memory_bytes = std::max(bytes, log_.peak_memory_bytes);
  if (const auto bytes = megatron_memory(line, "max reserved")) log_.reserved_bytes = std::max(bytes, log_.reserved_bytes);
  if (const auto batch = stated_batch(line)) batch_ = batch;
  trainer_.line(number, line);
  mlperf_.line(number, line);
  for (std::size_t i = 0; i < kSources.size(); ++i) {
    StepLine found = kSources[i].read(line);
    if (found.reading != Reading::foreign) return take(i, number, std::move(found), line);
  }
}

void LogReader::take(std::size_t source, std::int64_t number, StepLine line, std::string_view text) {
  SourceSteps& found = found_[source];
  if (line.reading == Reading::damaged) {
    if (found.damaged++ == 0) {
      found.first_damaged_line = number;
      found.missing = line.missing;
    }
    return;
  }
  const LogFormat format = kSources[source].format;
  if (source < kRuns && run_ && *run_ != source) {
    mixed_ = Error{ErrorKind::bad_input, cat(where_, ":", number),
                   cat("a step of ", to_string(format), " after steps of ", to_string(kSources[*run_].format)),
                   "the log of one run", "split the file"};
    return;
  }
  if (source < kRuns) run_ = source;
  if (format == LogFormat::bridge) bridge_tflops_ = line.step.tflops_per_device;
  if (format == LogFormat::megatron && !line.step.tflops_per_device) line.step.tflops_per_device = bridge_tflops_;
  line.step.line = number;
  if (!kSources[source].numbered) line.step.step = static_cast<std::int64_t>(found.steps.size()) + 1;
  found.resolution = std::max(found.resolution, line.resolution);
  found.add(line.step, printer_of(text));
}

void LogReader::choose(LogFormat format, std::vector<LoggedStep> steps) {
  log_.format = format;
  log_.steps = std::move(steps);
  for (LoggedStep& step : log_.steps) {
    if (step.memory_bytes) log_.peak_memory_bytes = std::max(step.memory_bytes, log_.peak_memory_bytes);
    if (!step.global_batch) step.global_batch = batch_;
  }
  if (format == LogFormat::torchtitan && log_.peak_memory_bytes)
    log_.reserved_bytes = log_.peak_memory_bytes;  // max_memory_reserved
}

void LogReader::choose(std::size_t source) {
  const SourceSteps& found = found_[source];
  std::vector<LoggedStep> steps;
  for (const PrintedStep& gathered : found.steps) steps.push_back(gathered.step());
  log_.resolution = found.resolution;
  log_.damaged = found.damaged;
  log_.first_damaged_line = found.first_damaged_line;
  choose(kSources[source].format, std::move(steps));
}

Error LogReader::none() const {
  for (std::size_t i = 0; i < kSources.size(); ++i) {
    const SourceSteps& found = found_[i];
    if (found.damaged == 0) continue;
    const std::string_view name = to_string(kSources[i].format);
    return {ErrorKind::bad_input, cat(where_, ":", found.first_damaged_line),
            cat("a step line of ", name, " without ", found.missing, ", and no readable step line"),
            cat("a line like '", kSources[i].example, "'"), cat("paste complete lines, as ", name, " prints them")};
  }
  if (trainer_.first_line() > 0)
    return {ErrorKind::bad_input, cat(where_, ":", trainer_.first_line()), "lines of the Hugging Face Trainer without a time",
            trainer_.missing(), "also keep stderr (2>&1): the progress bar goes there, unless disable_tqdm is set"};
  if (mlperf_.first_line() > 0)
    return {ErrorKind::bad_input, cat(where_, ":", mlperf_.first_line()), "MLPerf events without step times", mlperf_.missing(),
            "keep the complete log, from run_start to run_stop"};
  return {ErrorKind::bad_input, cat(where_, ":1"), "no line that reports a training step",
          "step lines of Megatron-LM, Megatron-Bridge, NeMo, torchtitan, nanotron, DeepSpeed, the Hugging Face Trainer or MLPerf",
          "docs/file-formats.md#calibration shows a line of each; give a run of another framework as a record"};
}

Result<StepLog> LogReader::finish() {
  if (!mixed_.ok()) return mixed_.error();
  for (std::size_t i = 0; i < kSources.size(); ++i) {
    if (found_[i].steps.empty() || !kSources[i].numbered) continue;
    choose(i);
    return std::move(log_);
  }
  if (auto steps = mlperf_.steps(); !steps.empty()) {
    choose(LogFormat::mlperf, std::move(steps));
    return std::move(log_);
  }
  for (std::size_t i = 0; i < kSources.size(); ++i) {
    if (found_[i].steps.empty()) continue;
    choose(i);
    return std::move(log_);
  }
  auto steps = trainer_.steps();
  if (steps.empty()) return none();
  log_.resolution = trainer_.resolution();
  choose(LogFormat::trainer, std::move(steps));
  return std::move(log_);
}

/// Returns the value at a share of the sorted range, from smallest to largest.
double quartile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::floor(share * static_cast<double>(values.size() - 1) + 0.5))];
}

std::size_t warm_up_of(const StepLog& log, const std::optional<std::int64_t>& wanted) {
  const std::size_t most = log.steps.empty() ? 0 : log.steps.size() - 1;
  if (wanted.value_or(-1) >= 0) return std::min(most, static_cast<std::size_t>(*wanted));
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
    case LogFormat::nemo: return "NeMo";
    case LogFormat::bridge: return "Megatron-Bridge";
    case LogFormat::deepspeed: return "DeepSpeed";
    case LogFormat::trainer: return "Hugging Face Trainer";
    case LogFormat::mlperf: return "MLPerf";
  }
  return "";
}

std::optional<double> seconds_of(const LoggedStep& step, double tokens_per_device, double samples) {
  if (step.seconds) return step.seconds;
  if (step.tokens_per_s_per_device) return tokens_per_device / *step.tokens_per_s_per_device;
  if (step.samples_per_s) return samples / *step.samples_per_s;
  return std::nullopt;
}

Result<StepLog> read_step_log(std::string_view text, const std::string& where) {
  if (Status status = check_size(text, where); !status.ok()) return status.error();
  LogReader reader(where);
  each_line(text, [&](std::int64_t number, std::string_view line) { reader.line(number, line); });
  return reader.finish();
}

StepSummary summarize(const StepLog& log, std::optional<std::int64_t> warm_up) {
  StepSummary out;
  const std::size_t first = warm_up_of(log, warm_up);
  out.warm_up = static_cast<std::int64_t>(first);
  out.steps = static_cast<std::int64_t>(log.steps.size() - first);
  out.memory_bytes = log.peak_memory_bytes;
  if (!log.steps.empty()) out.global_batch = log.steps.back().global_batch;
  std::vector<double> seconds, rates, samples, flops;
  for (std::size_t i = first; i < log.steps.size(); ++i) {
    const LoggedStep& s = log.steps[i];
    if (s.global_batch != out.global_batch) {  // the batch was still growing
      --out.steps;
      ++out.warm_up;
      continue;
    }
    if (s.seconds) seconds.push_back(*s.seconds);
    if (s.tokens_per_s_per_device) rates.push_back(*s.tokens_per_s_per_device);
    if (s.samples_per_s) samples.push_back(*s.samples_per_s);
    if (s.tflops_per_device) flops.push_back(*s.tflops_per_device);
  }
  if (!seconds.empty()) out.seconds = base::median(seconds);
  if (!rates.empty()) out.tokens_per_s_per_device = base::median(rates);
  if (!samples.empty()) out.samples_per_s = base::median(samples);
  if (!flops.empty()) out.tflops_per_device = base::median(flops);
  const std::vector<double>& timed = !seconds.empty() ? seconds : !rates.empty() ? rates : samples;
  if (!timed.empty()) out.spread = 0.5 * (quartile(timed, 0.75) - quartile(timed, 0.25)) / base::median(timed);
  return out;
}

}  // namespace espalier::runlog
