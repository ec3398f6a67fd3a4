// SPDX-License-Identifier: Apache-2.0
// Lets another process steer a run while it trains: to look at its ranks and links, or to leave after a checkpoint.
// The reason for a request lies outside this module.
//
// A request is a file of one word, "look" or "leave", in a folder that rank 0 checks between steps. Reading a request
// removes it. All ranks receive it with the sum that ends the step (executor.h), so that they react after the same
// step.
//
// To look, every pair of ranks exchanges messages of kBytes, all pairs of one distance at once, each twice; the
// faster one counts. Rank 0 reports the result line by line (`say`), each line beginning with "seen":
//     seen rank DEVICE FORWARD_S BACKWARD_S      seconds per micro-batch: operators alone, mean since the last look
//     seen rate DEVICE DEVICE BYTES_PER_S        from the first to the second
//     seen end UPDATES                           number of updates done
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/communicator.h"
#include "runtime/operator_clock.h"
#include "runtime/rank_model.h"

namespace espalier::runtime {

enum class Wish : std::uint8_t { none, look, leave };

class Steering {
 public:
  static constexpr std::int64_t kBytes = std::int64_t{1} << 20;

  /// An empty `folder` means that no request ever arrives. `microbatches` counts those of this rank in a step.
  Steering(std::string folder, const RankView& view, std::int64_t microbatches, Communicator* world)
      : folder_(std::move(folder)), view_(view), microbatches_(microbatches), world_(world) {}

  /// Returns the request that rank 0 finds in its folder; none on all other ranks.
  [[nodiscard]] Wish asked() const;
  /// Measures ranks and links. Every rank calls this, after `updates` updates.
  void look(std::int64_t updates, const std::function<void(const std::string&)>& say);
  /// Counts a trained step.
  void stepped() { ++steps_; }

 private:
  std::string folder_;
  const RankView& view_;
  std::int64_t microbatches_;
  Communicator* world_;
  std::int64_t steps_ = 0;                 ///< since the last look
  double forward_s_ = 0, backward_s_ = 0;  ///< readings of the clock at the last look
};

}  // namespace espalier::runtime
