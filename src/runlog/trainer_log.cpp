// SPDX-License-Identifier: Apache-2.0
#include "runlog/trainer_log.h"

#include <algorithm>

#include "runlog/lines.h"
#include "runlog/step_lines.h"

namespace espalier::runlog {
namespace {

constexpr std::size_t kMostBars = 1000;
constexpr std::size_t kMostSteps = 1'000'000;

/// Returns the seconds in "1:02:03" or "05:31"; nothing for another text.
std::optional<double> clock_of(std::string_view text) {
  double seconds = 0;
  for (int parts = 0; parts < 3; ++parts) {
    const std::size_t colon = text.find(':');
    const auto part = whole_integer(text.substr(0, colon));
    if (!part || *part < 0 || *part > 1'000'000) return std::nullopt;
    seconds = seconds * 60 + static_cast<double>(*part);
    if (colon == std::string_view::npos) return parts > 0 ? std::optional(seconds) : std::nullopt;
    text.remove_prefix(colon + 1);
  }
  return std::nullopt;
}

/// Reads "'train_runtime': 101.6" or "'train_runtime': '101.6'".
std::optional<double> quoted_number(std::string_view text, std::string_view key) {
  auto rest = after(text, key);
  if (!rest || !rest->starts_with(":")) return std::nullopt;
  std::string_view value = trimmed(rest->substr(1));
  if (value.starts_with("'") || value.starts_with("\"")) value.remove_prefix(1);
  return leading_number(value);
}

/// Returns the last word before `end` that is a whole number.
std::optional<std::int64_t> number_before(std::string_view text, std::size_t end) {
  std::size_t begin = end;
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
  return whole_integer(text.substr(begin, end - begin));
}

struct BarLine {
  std::int64_t step = 0, total = 0;
  double elapsed_s = 0, seconds = 0, resolution = 0;
};

/// Reads "… 120/690 [05:31<26:02,  2.74s/it]"; nothing without a bar, or for one without a rate.
std::optional<BarLine> bar_line(std::string_view text) {
  const std::size_t open = text.find(" [");
  if (open == std::string_view::npos) return std::nullopt;
  const std::size_t slash = text.rfind('/', open);
  const std::size_t less = text.find('<', open), comma = text.find(',', open);
  if (slash == std::string_view::npos || less == std::string_view::npos || comma == std::string_view::npos || less > comma)
    return std::nullopt;
  const auto step = number_before(text, slash), total = whole_integer(text.substr(slash + 1, open - slash - 1));
  const auto elapsed = clock_of(text.substr(open + 2, less - open - 2));
  if (!step || !total || *step < 1 || *total < *step || !elapsed) return std::nullopt;
  const std::string_view rate = trimmed(text.substr(comma + 1));
  const auto value = positive(leading_number(rate), 1e9);
  if (!value) return std::nullopt;
  const std::size_t slow = rate.find("s/it"), fast = rate.find("it/s");
  if (slow == std::string_view::npos && fast == std::string_view::npos) return std::nullopt;
  const bool by_step = slow < fast;
  const double seconds = by_step ? *value : 1 / *value;
  if (seconds > kMaxSeconds) return std::nullopt;
  return BarLine{*step, *total, *elapsed, seconds, 0.005 / *value};
}

}  // namespace

void TrainerLog::line(std::int64_t number, std::string_view text) {
  const bool loss = text.find("{'loss':") != std::string_view::npos;
  const bool done = text.find("'train_runtime':") != std::string_view::npos;
  if ((loss || done) && first_line_ == 0) first_line_ = number;
  if (done) end(number, text);
  bar(number, text);
}

void TrainerLog::bar(std::int64_t number, std::string_view text) {
  const auto found = bar_line(text);
  if (!found || (bars_.size() == kMostBars && bars_.count(found->total) == 0)) return;
  Bar& bar = bars_[found->total];
  if (first_line_ == 0) first_line_ = number;
  LoggedStep step;
  step.line = number;
  step.step = found->step;
  step.seconds = found->seconds;
  if (!bar.steps.empty() && found->step < bar.steps.back().step) bar = {};  // an evaluation begins again
  bar.elapsed_s = found->elapsed_s;
  bar.resolution = std::max(bar.resolution, found->resolution);
  if (!bar.steps.empty() && bar.steps.back().step == found->step)
    bar.steps.back() = step;  // drawn again
  else if (bar.steps.size() < kMostSteps)
    bar.steps.push_back(step);
}

void TrainerLog::end(std::int64_t number, std::string_view text) {
  const auto steps = positive(quoted_number(text, "'train_steps_per_second'"), 1e9);
  const auto samples = positive(quoted_number(text, "'train_samples_per_second'"), 1e9);
  if ((!steps && !samples) || means_.size() == kMostSteps) return;
  LoggedStep step;
  step.line = number;
  // Each has three places, so the larger figure is the finer one.
  if (steps && (!samples || *steps >= *samples)) {
    step.seconds = 1 / *steps;
    mean_resolution_ = 0.0005 / *steps;
  } else {
    step.samples_per_s = samples;
    mean_resolution_ = 0.0005 / *samples;
  }
  if (positive(step.seconds.value_or(1), kMaxSeconds)) means_.push_back(step);
}

std::vector<LoggedStep> TrainerLog::steps() const {
  const auto longest = std::max_element(bars_.begin(), bars_.end(),
                                        [](const auto& a, const auto& b) { return a.second.elapsed_s < b.second.elapsed_s; });
  if (longest != bars_.end() && longest->second.steps.size() > 1) return longest->second.steps;
  if (!means_.empty()) return {means_.back()};
  return longest == bars_.end() ? std::vector<LoggedStep>{} : longest->second.steps;
}

double TrainerLog::resolution() const {
  const auto found = steps();
  for (const auto& [total, bar] : bars_)
    if (!found.empty() && !bar.steps.empty() && bar.steps.front().line == found.front().line) return bar.resolution;
  return mean_resolution_;
}

std::string TrainerLog::missing() const {
  return "the progress bar (\"120/690 [05:31<26:02, 2.74s/it]\") or the last line with \"train_steps_per_second\"";
}

}  // namespace espalier::runlog
