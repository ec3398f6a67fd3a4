// SPDX-License-Identifier: Apache-2.0
// What commands that start ranks share: the program of the ranks, what it is told, and a folder for what it needs.
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

/// ESPALIER_RANK, or espalier-rank beside this program.
Result<std::string> rank_program();
/// What a launcher of a cluster says about this process; an Error where none speaks.
Result<launch::RankPlace> place_by_launcher(const std::string& command);

/// How ranks train; the words of espalier-rank (src/runtime/worker_main.cpp).
struct RankOptions {
  std::string data, weights, save, checkpoint, pace, record, timeline, steering;
  std::int64_t direct_bytes = 0;     ///< collectives up to this size go from everyone to everyone; 0: as the runtime
                                     ///< has it
  std::int64_t every = 0, keep = 2;  ///< of checkpoints
  bool resume = false;
  std::int64_t steps = 20, seed = 1;
  double rate = 1e-3, clip = 1, timeout = 300;
};
std::vector<std::string> words_of(const RankOptions& options, const std::string& plan, int rank, std::int64_t world,
                                  const std::string& rendezvous);

/// One line of rank 0: "step 3 LOSS NORM SECONDS".
struct TrainedStep {
  std::int64_t step = 0;
  double loss = 0, gradient = 0, seconds = 0;
};
std::optional<TrainedStep> step_line(const std::string& line);

/// A folder that is gone when this is.
/// For people: the step of `steps`, its loss and its pace, where it trains on `tokens`.
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

/// What the cluster of the plan says of its collectives: RankOptions::direct_bytes.
std::int64_t direct_bytes_of(const Plan& plan);

/// Starts a rank for every device of the plan on this machine and waits for all. `line` gets what rank 0 says.
Status run_plan_here(const Plan& plan, const RankOptions& options, const std::string& program,
                     const std::function<void(const std::string&)>& line, const std::function<bool()>& interrupted);

}  // namespace espalier::cli
