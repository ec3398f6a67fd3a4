// SPDX-License-Identifier: Apache-2.0
// Watches over a plan() call: says when to stop, and why, and passes on where the search stands, one line a second at
// most. The search polls it all the time, from every thread, so that a line comes and an end is answered in the middle
// of any phase.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "espalier/planner.h"
#include "search/search.h"

namespace espalier::planner {

class Watch {
 public:
  /// The time limit counts from here. `options` outlives the watch.
  explicit Watch(const PlannerOptions& options);

  /// Once true it stays so.
  bool stopped();
  /// interrupted or time_limit; none: not stopped.
  [[nodiscard]] SearchEnd reason() const { return reason_.load(); }
  void stands(const search::Progress& standing);

 private:
  using Clock = std::chrono::steady_clock;
  void tell();

  const PlannerOptions& options_;
  Clock::time_point start_ = Clock::now();
  std::atomic<SearchEnd> reason_{SearchEnd::none};
  std::atomic<std::int64_t> next_line_ns_{0};  ///< since the start
  std::mutex telling_;
  search::Progress standing_;
};

/// "layer-wise: 12 of 96 pipelines and batches, best 3.917 s, nothing below 3.610 s, 4 s".
std::string text_of(const search::Progress& standing, double seconds);

}  // namespace espalier::planner
