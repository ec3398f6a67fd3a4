// SPDX-License-Identifier: Apache-2.0
// Compares the claims about a move with what follows from the two plans:
//
//   moved-bytes      kept, peer, storage and lost bytes; every pipeline of the new plan holds the whole model
//   bytes-per-link   bytes that nodes receive, to the byte; bytes that they send and that links carry, between
//                    bounds; totals sent and received are equal
//   move-seconds     transfer: at least what any link needs for its bytes at the best rate on its path. At most what
//                    the busiest node needs at the worst rate with one device sending, plus the latencies.
//                    Storage: the most that one device reads, at the rate of the question. Rollback, restart and
//                    warm-up: those of the question.
//
// If some byte has no holder left, every device reads all its states from the last checkpoint: nothing is kept and
// no peer sends. The claim may also use the checkpoint where it is faster than peers at their worst, rollback
// included. It may not use peers where the checkpoint is faster than peers at their best.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "check/check.h"
#include "check/moved_bytes.h"

namespace espalier::check {

/// Holds the claims of the answer. Seconds are whole nanoseconds.
struct MoveClaims {
  std::int64_t kept = 0, peer = 0, storage = 0, lost = 0;
  std::vector<std::pair<std::string, std::int64_t>> links;
  std::int64_t transfer_ns = 0, storage_ns = 0, rollback_ns = 0, restart_ns = 0, warm_up_ns = 0;
};

/// Holds the prices of a move.
struct MovePrices {
  double storage_per_device = 1;  ///< bytes per second
  std::int64_t checkpoint_age_ns = 0, restart_ns = 0, warm_up_ns = 0;
  /// Holds "node:3", "rank:17" or "a-b" and its share of full bandwidth.
  std::vector<std::pair<std::string, double>> narrowed;
};

std::vector<Finding> check_move(const MoveQuestion& question, const MovePrices& prices, const MoveClaims& claims);

}  // namespace espalier::check
