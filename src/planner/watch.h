// SPDX-License-Identifier: Apache-2.0
// Watches over a plan() call: says when to stop, and why, and passes on where the search stands, one line a second at most. The search
// polls it all the time, from every thread, so that a line comes and an end is answered in the middle of any phase.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "espalier/planner.h"
#include "search/search.h"

namespace espalier {

class Watch {
 public:
  /// The time limit counts from here. `options` outlives the watch.
  explicit Watch(const PlannerOptions& options);

  /// Once true it stays so.
  bool stopped();
  /// "interrupted" or "time limit"; empty: not stopped.
  [[nodiscard]] std::string reason() const;
  void stands(const search::Standing& standing);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Reason : std::uint8_t { none, interrupted, time_limit };
  void tell();

  const PlannerOptions& options_;
  Clock::time_point start_ = Clock::now();
  std::atomic<Reason> reason_{Reason::none};
  std::atomic<std::int64_t> next_line_ns_{0};  ///< since the start
  std::mutex telling_;
  search::Standing standing_;
};

/// "layer-wise: 12 of 96 pipelines and batches, best 3.917 s, nothing below 3.610 s, 4 s".
std::string text_of(const search::Standing& standing, double seconds);

}  // namespace espalier
