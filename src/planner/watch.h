// SPDX-License-Identifier: Apache-2.0
// Watches over a plan() call. It decides when the search stops, records why, and reports progress, at most one line
// per second. The search polls it continuously from every thread, so that progress lines and stop requests work in
// the middle of any phase.
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
  /// Starts the clock of the time limit. `options` must outlive the watch.
  explicit Watch(const PlannerOptions& options);

  /// Returns whether the search must stop. Once true, it stays true.
  bool stopped();
  /// Returns interrupted or time_limit; none if the search was not stopped.
  [[nodiscard]] SearchEnd reason() const { return reason_.load(); }
  void stands(const search::Progress& standing);

 private:
  using Clock = std::chrono::steady_clock;
  void tell();
  void observe();

  const PlannerOptions& options_;
  Clock::time_point start_ = Clock::now();
  std::atomic<SearchEnd> reason_{SearchEnd::none};
  std::atomic<std::int64_t> next_line_ns_{0};  ///< next progress line, in nanoseconds since the start
  std::mutex telling_;
  search::Progress standing_;
  SearchState observed_;  ///< state that the observer received last
};

/// Formats progress: "layer-wise: 12 of 96 pipelines and batches, best 3.917 s, nothing below 3.610 s, 4 s".
std::string text_of(const search::Progress& standing, double seconds);

}  // namespace espalier::planner
