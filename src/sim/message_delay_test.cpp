// SPDX-License-Identifier: Apache-2.0
// Tests messages over long paths: the sender is free when the bytes have left, the receiver also waits for the path
// (Costs::delays).
#include <gtest/gtest.h>

#include "sim/simulator.h"

namespace espalier::sim {
namespace {

// Two stages run three micro-batches under GPipe, with sends overlapped. Forward and backward take 10, sending 5, the
// path 100.
//   stage 0   forward 0–10, 10–20, 20–30; sends end at 15, 25, 35
//   stage 1   inputs at 115, 125, 135: forward until 145, backward 145–155, 155–165, 165–175; sends end at 160, 170,
//             180
//   stage 0   gradients at 260, 270, 280: backward until 290
// If a sender were held for 105, its inputs would arrive at 115, 220, 325.
TEST(MessageDelay, HoldsNobody) {
  ProgramStructure structure;
  structure.schedule = {ScheduleKind::gpipe, 2, 1, 3, 1};
  structure.overlap_p2p = true;
  for (std::int32_t c = 0; c < 2; ++c) structure.buckets.add(1);
  cost::Costs costs;
  costs.reset(structure);
  for (std::int32_t c = 0; c < 2; ++c) {
    costs.works[structure.forward(ChunkId(c))].time.compute_ns = 10;
    costs.works[structure.backward(ChunkId(c))].time.compute_ns = 10;
  }
  costs.delays.assign(2, Nanoseconds(100));
  for (const bool gradient : {false, true}) costs.transfers[structure.transfer(ChunkId(1), gradient)] = Nanoseconds(5);
  EXPECT_EQ(Simulator().iteration_ns(lower(structure), costs), 290);
}

}  // namespace
}  // namespace espalier::sim
