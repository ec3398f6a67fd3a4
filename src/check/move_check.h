// SPDX-License-Identifier: Apache-2.0
// What an answer says of a move, against what follows from the two plans:
//
//   moved-bytes      kept, peer, storage and lost bytes; every pipeline of the new plan holds the whole model
//   bytes-per-link   what nodes take in, to the byte; what they send and what links carry, between its bounds; as much
//                    is sent as is taken
//   move-seconds     transfer: not less than any link needs for its bytes at the best rate on its way, not more than
//                    the busiest node needs at the worst
//                    rate with one device sending, and the latencies; storage: the most that one device reads, at the
//                    rate of the question; rollback,
//                    restart and warm-up: those of the question
//
// Where nobody holds some byte any more, every device reads all its states from the last checkpoint: nothing is kept
// and no peer sends. The same may be claimed where it is sooner than peers at their worst, rollback included; bytes
// from peers may not be claimed where it is sooner than they are at best.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "check/check.h"
#include "check/moved_bytes.h"

namespace espalier::check {

/// What the answer says. Seconds in whole nanoseconds.
struct MoveClaims {
  std::int64_t kept = 0, peer = 0, storage = 0, lost = 0;
  std::vector<std::pair<std::string, std::int64_t>> links;
  std::int64_t transfer_ns = 0, storage_ns = 0, rollback_ns = 0, restart_ns = 0, warm_up_ns = 0;
};

/// What the move was priced with.
struct MovePrices {
  double storage_per_device = 1;  ///< bytes per second
  std::int64_t checkpoint_age_ns = 0, restart_ns = 0, warm_up_ns = 0;
  std::vector<std::pair<std::string, double>> narrowed;  ///< "node:3", "rank:17" or "a-b" at so much of its bandwidth
};

std::vector<Finding> check_move(const MoveQuestion& question, const MovePrices& prices, const MoveClaims& claims);

}  // namespace espalier::check
