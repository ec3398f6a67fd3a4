// SPDX-License-Identifier: Apache-2.0
// What a run can be asked for while it trains: to look at its ranks and links, or to leave after a checkpoint. Who
// asks, and why, is not known here.
//
// A request is a file of one word, "look" or "leave", in a folder into which rank 0 looks between steps; it is taken
// away when it is read. All ranks learn of it with the sum that ends the step (executor.h), so that they do the same
// after the same step.
//
// Looking: every pair of ranks exchanges messages of kBytes, all pairs of one distance at once, each twice; the faster
// counts. What rank 0 says of it, line by line (`say`), all of them beginning with "seen":
//     seen rank DEVICE FORWARD_S BACKWARD_S      of a micro-batch: operators alone, mean since the last look
//     seen rate DEVICE DEVICE BYTES_PER_S        from the first to the second
//     seen end UPDATES                           after so many updates
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

  /// `folder` empty: nothing is ever asked for. `microbatches`: of this rank in a step.
  Steering(std::string folder, const RankView& view, std::int64_t microbatches, Communicator* world)
      : folder_(std::move(folder)), view_(view), microbatches_(microbatches), world_(world) {}

  /// What rank 0 finds in its folder; none on all other ranks.
  [[nodiscard]] Wish asked() const;
  /// Every rank calls this, after `updates` updates.
  void look(std::int64_t updates, const std::function<void(const std::string&)>& say);
  /// A step was trained.
  void stepped() { ++steps_; }

 private:
  std::string folder_;
  const RankView& view_;
  std::int64_t microbatches_;
  Communicator* world_;
  std::int64_t steps_ = 0;                 ///< since the last look
  double forward_s_ = 0, backward_s_ = 0;  ///< of the clock at the last look
};

}  // namespace espalier::runtime
