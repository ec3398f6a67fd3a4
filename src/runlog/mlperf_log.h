// SPDX-License-Identifier: Apache-2.0
// Reads MLPerf's log of a training run: JSON after ":::MLLOG", one event per line (mlcommons/logging, mllog).
//
//   {"time_ms": 1721026606541, "key": "block_start",   "value": null, "metadata": {"samples_count": 2688}}
//   {"time_ms": 1721026805975, "key": "block_stop",    "value": null, "metadata": {"samples_count": 3072}}
//   {"time_ms": …,             "key": "tracked_stats", "value": {"train_step_time": 5.07},
//                              "metadata": {"samples_count": 1152}}
//   {"time_ms": …,             "key": "global_batch_size", "value": 1152}
//
// A block is the part between two evaluations: (3072 − 2688) samples in 199.434 s. The "throughput" of tracked_stats
// is not read: it is samples per second in one submission and tokens per second in another. Blocks count where no
// event states the seconds of a step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runlog/step_log.h"

namespace espalier::runlog {

class MlperfLog {
 public:
  void line(std::int64_t number, std::string_view text);
  /// Returns the steps in the order of the file; every step has the global batch where the log states it.
  [[nodiscard]] std::vector<LoggedStep> steps() const;
  [[nodiscard]] std::int64_t first_line() const { return first_line_; }  ///< line of the first event; 0: none
  [[nodiscard]] std::string missing() const;                             ///< where there are events and no steps

 private:
  struct Event;
  void take(const Event& event);

  std::vector<LoggedStep> timed_, blocks_;
  std::int64_t first_line_ = 0;
  std::optional<std::int64_t> batch_;
  std::optional<std::int64_t> start_ms_, start_samples_;  ///< start of the open block
};

}  // namespace espalier::runlog
