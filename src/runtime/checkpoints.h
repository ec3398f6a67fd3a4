// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a run (storage/checkpoint.h), written and resumed by all its ranks together.
//
// Writing: rank 0 makes the folder; every rank writes what it counts; all know whether all could; rank 0 completes it.
// Resuming: from the last complete checkpoint to the first, every rank reads what it holds under its plan, which may be
// another than that of the writers; one that is damaged anywhere is passed over by all. Every rank calls everything
// here; an error is that of all of them.
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

  /// Updates that the states have now. `note` is told what is resumed and what was passed over, on every rank.
  Result<std::int64_t> resume(const std::function<void(const std::string&)>& note);
  /// After `updates` of `steps` updates: writes one where one is due.
  Status after(std::int64_t updates, std::int64_t steps);
  /// One now, unless after() has just written it.
  Status now(std::int64_t updates);

 private:
  /// Updates that the states had when it was written: what its manifest holds.
  [[nodiscard]] Result<std::int64_t> read(const std::string& step_folder);
  [[nodiscard]] Status unlike(const storage::Manifest& manifest, const std::string& where) const;
  Status write(std::int64_t updates);
  [[nodiscard]] bool leads() const { return world_ == nullptr || world_->rank() == 0; }

  CheckpointOptions options_;
  const RankView& view_;
  RankModel& model_;
  Communicator* world_;
  storage::TrainingFacts training_;
  std::int64_t written_ = -1;  ///< updates of the last one that after() wrote
};

}  // namespace espalier::runtime
