// SPDX-License-Identifier: Apache-2.0
// Writes and resumes checkpoints of a run (storage/checkpoint.h), by all ranks together.
//
// To write, rank 0 makes the folder and every rank writes the elements that it counts. The ranks then share whether
// all writes succeeded, and rank 0 completes the checkpoint.
// To resume, the ranks try checkpoints from the last complete one to the first. Every rank reads the elements that it
// holds under its plan, which may differ from the writers' plan. All ranks skip a checkpoint that is damaged
// anywhere. Every rank calls every function here, and all ranks return the same error.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/rank_model.h"
#include "runtime/trainer.h"
#include "storage/checkpoint.h"

namespace espalier::runtime {

class Checkpoints {
 public:
  Checkpoints(CheckpointOptions options, const RankView& view, RankModel& model, Communicator* world, std::string data);

  /// Returns the number of updates that the states now contain. On every rank, `note` receives which checkpoint is
  /// resumed and which ones were skipped.
  Result<std::int64_t> resume(const std::function<void(const std::string&)>& note);
  /// Writes a checkpoint where one is due after `updates` of `steps` updates.
  Status after(std::int64_t updates, std::int64_t steps);
  /// Writes a checkpoint now, unless after() has just written it.
  Status now(std::int64_t updates);

 private:
  /// Returns the number of updates that the states had when the checkpoint was written, as its manifest records.
  [[nodiscard]] Result<std::int64_t> read(const std::string& step_folder);
  [[nodiscard]] Status unlike(const storage::Manifest& manifest, const std::string& where) const;
  Status write(std::int64_t updates);
  [[nodiscard]] bool leads() const { return world_ == nullptr || world_->rank() == 0; }

  CheckpointOptions options_;
  const RankView& view_;
  RankModel& model_;
  Communicator* world_;
  storage::TrainingFacts training_;
  std::int64_t written_ = -1;  ///< updates of the last checkpoint that after() wrote
};

}  // namespace espalier::runtime
