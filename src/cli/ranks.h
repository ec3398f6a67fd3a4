// SPDX-License-Identifier: Apache-2.0
// Declares the parts that commands with ranks share: the program of the ranks, its arguments, and a folder for its
// files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "espalier/plan.h"
#include "espalier/result.h"
#include "launch/launch.h"

namespace espalier::cli {

/// Returns ESPALIER_RANK, or espalier-rank in the folder of this program.
Result<std::string> rank_program();
/// Returns this process's place as set by a cluster's launcher; an Error without one.
Result<launch::RankPlace> place_by_launcher(const std::string& command);

/// Holds how ranks train: the arguments of espalier-rank (src/runtime/worker_main.cpp).
struct RankOptions {
  std::string data, weights, save, checkpoint, pace, record, timeline, steering;
  /// Collectives up to this size go from everyone to everyone; 0 keeps the runtime's default.
  std::int64_t direct_bytes = 0;
  std::int64_t every = 0, keep = 2;  ///< for checkpoints
  bool resume = false;
  std::int64_t steps = 20, seed = 1;
  double rate = 1e-3, clip = 1, timeout = 300;
};
std::vector<std::string> words_of(const RankOptions& options, const std::string& plan, int rank, std::int64_t world,
                                  const std::string& rendezvous);

/// Holds one line of rank 0: "step 3 LOSS NORM SECONDS".
struct TrainedStep {
  std::int64_t step = 0;
  double loss = 0, gradient = 0, seconds = 0;
};
std::optional<TrainedStep> step_line(const std::string& line);

/// Describes a step for people: the step of `steps`, its loss and its pace, where it trains on `tokens`.
std::string step_text(const TrainedStep& step, std::int64_t steps, double tokens);

class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Returns the limit of direct messages of the plan's cluster: RankOptions::direct_bytes.
std::int64_t direct_bytes_of(const Plan& plan);

/// Starts a rank for every device of the plan on this machine and waits for all. `line` receives the lines of rank 0.
Status run_plan_here(const Plan& plan, const RankOptions& options, const std::string& program,
                     const std::function<void(const std::string&)>& line, const std::function<bool()>& interrupted);

}  // namespace espalier::cli
