// SPDX-License-Identifier: Apache-2.0
#include "runlog/mlperf_log.h"

#include "base/document.h"
#include "runlog/lines.h"
#include "runlog/step_lines.h"

namespace espalier::runlog {
namespace {

constexpr std::int64_t kMost = 1'000'000'000'000'000;

const base::Node* member(const base::Node* node, std::string_view key) {
  return node != nullptr && node->kind == base::NodeKind::mapping ? node->find(key) : nullptr;
}

std::optional<std::int64_t> count_of(const base::Node* node) {
  if (node == nullptr || node->kind != base::NodeKind::integer || node->integer < 0 || node->integer > kMost) return std::nullopt;
  return node->integer;
}

std::optional<double> real_of(const base::Node* node) {
  if (node == nullptr || (node->kind != base::NodeKind::integer && node->kind != base::NodeKind::real)) return std::nullopt;
  return node->kind == base::NodeKind::integer ? static_cast<double>(node->integer) : node->real;
}

}  // namespace

struct MlperfLog::Event {
  std::int64_t line = 0;
  std::string_view key;
  std::optional<std::int64_t> ms, samples;
  const base::Node* value = nullptr;
};

void MlperfLog::line(std::int64_t number, std::string_view text) {
  const auto json = after(text, ":::MLLOG");
  if (!json) return;
  if (first_line_ == 0) first_line_ = number;
  const auto document = base::read_json(trimmed(*json), "event", {std::size_t{64} << 10, 16, 1000, std::size_t{64} << 10});
  if (!document) return;  // truncated
  const base::Node *key = member(&document->root, "key"), *metadata = member(&document->root, "metadata");
  if (key == nullptr || key->kind != base::NodeKind::string) return;
  take({number, key->text, count_of(member(&document->root, "time_ms")), count_of(member(metadata, "samples_count")),
        member(&document->root, "value")});
}

void MlperfLog::take(const Event& event) {
  if (event.key == "global_batch_size") {
    if (const auto batch = count_of(event.value); batch && *batch > 0) batch_ = batch;
  } else if (event.key == "tracked_stats") {
    const auto seconds = positive(real_of(member(event.value, "train_step_time")), kMaxSeconds);
    if (!seconds) return;
    LoggedStep step;
    step.line = event.line;
    step.step = event.samples.value_or(static_cast<std::int64_t>(timed_.size()) + 1);
    step.seconds = seconds;
    timed_.push_back(step);
  } else if (event.key == "block_start") {
    start_ms_ = event.ms;
    start_samples_ = event.samples;
  } else if (event.key == "block_stop") {
    if (event.ms && start_ms_ && event.samples && start_samples_ && *event.ms > *start_ms_ && *event.samples > *start_samples_) {
      LoggedStep step;
      step.line = event.line;
      step.step = *event.samples;
      step.samples_per_s =
          static_cast<double>(*event.samples - *start_samples_) / (static_cast<double>(*event.ms - *start_ms_) * 1e-3);
      blocks_.push_back(step);
    }
    start_ms_.reset();
    start_samples_.reset();
  }
}

std::vector<LoggedStep> MlperfLog::steps() const {
  std::vector<LoggedStep> out = timed_.empty() ? blocks_ : timed_;
  for (LoggedStep& step : out) step.global_batch = batch_;
  return out;
}

std::string MlperfLog::missing() const {
  return "the words \"train_step_time\", or \"block_start\" and \"block_stop\" with \"samples_count\"";
}

}  // namespace espalier::runlog
