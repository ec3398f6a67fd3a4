// SPDX-License-Identifier: Apache-2.0
// The four parts of the bound and the least activations, by hand. That none ever exceeds the simulation is tested
// where the simulator is: tests/property.
#include "cost/bound.h"

#include <gtest/gtest.h>

#include "cost/by_chunk.h"
#include "plan/program.h"

namespace espalier::cost::bound_test::bound_test {
namespace {

struct Pipeline {
  ProgramStructure structure;
  cost::test::ByChunk timing;
  [[nodiscard]] std::int64_t bound() const { return iteration_lower_bound_ns(costs_of(timing, structure), structure); }
};

/// Returns a pipeline where every chunk has F = 10, B = 20 (I = 12, W = 8); messages 1 each way between stages;
/// optimizer 5; p2p overlapped.
Pipeline pipeline(ScheduleKind kind, std::int32_t p, std::int32_t v, std::int32_t m) {
  Pipeline x;
  x.structure.schedule = {kind, p, v, m, 1};
  x.structure.buckets.assign(static_cast<std::size_t>(p * v), 1);
  x.structure.overlap_p2p = true;
  x.timing = cost::test::empty_rows(x.structure.schedule);
  for (cost::test::StageRow& s : x.timing.stages) s.optimizer_ns = 5;
  for (std::int32_t c = 0; c < p * v; ++c) {
    cost::test::ChunkRow& t = x.timing.chunks[static_cast<std::size_t>(c)];
    t.forward.compute_ns = 10;
    t.backward.compute_ns = 20;
    t.backward_input.compute_ns = 12;
    t.backward_weight.compute_ns = 8;
    const bool moves =
        c > 0 && place_of_chunk(x.structure.schedule, c).stage != place_of_chunk(x.structure.schedule, c - 1).stage;
    t.send_forward_ns = t.send_backward_ns = moves ? 1 : 0;
    t.saved_bytes = t.saved_after_input_bytes = 100;
  }
  return x;
}

// The bound is m · (F + B) + optimizer.
TEST(Bound, OneStageIsItsWork) { EXPECT_EQ(pipeline(ScheduleKind::one_f_one_b, 1, 1, 4).bound(), 4 * 30 + 5); }

// Last stage: 10 + 1 down, 4 · 30, 20 + 1 up to the first stage, optimizer: 157. Its round trips, with 4 in flight
// one by one, give the same.
TEST(Bound, WayDownWorkWayUp) { EXPECT_EQ(pipeline(ScheduleKind::gpipe, 2, 1, 4).bound(), 11 + 120 + 21 + 5); }

// (1): the step ends at a stage whose tail is long: 11 down, 120, optimizer 500.
TEST(Bound, LongTailOfTheLastStage) {
  Pipeline x = pipeline(ScheduleKind::gpipe, 2, 1, 4);
  x.timing.stages[1].optimizer_ns = 500;
  EXPECT_EQ(x.bound(), 11 + 120 + 500);
}

// (4): messages of 100 each way. Under 1F1B stage 0 has 2 in flight, so 4 micro-batches need 2 round trips of 10
// + 100 + 30 + 100 + 20 = 260. With GPipe's 4 in flight one is enough, and the last stage's 110 + 120 + 120 + 5
// counts.
TEST(Bound, FewInFlightWaitForRoundTrips) {
  Pipeline x = pipeline(ScheduleKind::one_f_one_b, 2, 1, 4);
  x.timing.chunks[1].send_forward_ns = x.timing.chunks[1].send_backward_ns = 100;
  EXPECT_EQ(x.bound(), 2 * 260 + 5);
  x.structure.schedule.kind = ScheduleKind::gpipe;
  EXPECT_EQ(x.bound(), 110 + 120 + 120 + 5);
}

// Sends block the next computation. Stage 1 sends 4 gradients, 3 of them between two of its computations; the last
// one is part of the way up already.
TEST(Bound, BlockingSends) {
  Pipeline x = pipeline(ScheduleKind::gpipe, 2, 1, 4);
  x.structure.overlap_p2p = false;
  EXPECT_EQ(x.bound(), 11 + 120 + 3 + 21 + 5);
}

// Reduction after the backward pass: 4 buckets of 7 each, then the optimizer.
TEST(Bound, ReductionInTheOpen) {
  Pipeline x = pipeline(ScheduleKind::one_f_one_b, 1, 1, 1);
  x.structure.reduce_gradients = true;
  x.structure.buckets = {4};
  x.timing.chunks[0].grad_reduce_ns = 7;
  EXPECT_EQ(x.bound(), 30 + 4 * 7 + 5);
}

// Overlapped, only the last bucket is left: 30 + 7 + 5. The data stream may be longer, from the first bucket of the
// backward on: 10 + (20 − 3·3)/4 + 4·40 + 5. The three parts of a bucket may each be rounded down by up to 3/4.
TEST(Bound, ReductionBesideTheBackward) {
  Pipeline x = pipeline(ScheduleKind::one_f_one_b, 1, 1, 1);
  x.structure.reduce_gradients = x.structure.overlap_reduce = true;
  x.structure.buckets = {4};
  x.timing.chunks[0].grad_reduce_ns = 5;
  EXPECT_EQ(x.bound(), 30 + 5 + 5);
  x.timing.chunks[0].grad_reduce_ns = 40;
  EXPECT_EQ(x.bound(), 10 + 2 + 4 * 40 + 5);
}

// ZeRO-1 gathers parameters after the optimizer, 3 buckets of 6. Gathered before it, only the first bucket is waited
// for.
TEST(Bound, GatherAfterOrBefore) {
  Pipeline x = pipeline(ScheduleKind::one_f_one_b, 1, 1, 1);
  x.structure.gather_parameters = true;
  x.structure.buckets = {3};
  x.timing.chunks[0].param_gather_ns = 6;
  EXPECT_EQ(x.bound(), 30 + 5 + 18);
  x.structure.overlap_gather = true;
  EXPECT_EQ(x.bound(), 6 + 30 + 5);
}

// Zero bubble: the way up takes input gradients only. That gives 11 down, 4 · (10 + 12) and then 12 + 1 up, weight
// gradient 8, optimizer 5 = 125; but all the work of the last stage is 11 + 4 · 30 + 5 = 136.
TEST(Bound, ZeroBubbleCountsWeightGradientsAsWork) { EXPECT_EQ(pipeline(ScheduleKind::zb_h1, 2, 1, 4).bound(), 136); }

// Tied embeddings are reduced on the first and the last stage before the optimizer.
TEST(Bound, TiedReduction) {
  Pipeline x = pipeline(ScheduleKind::gpipe, 2, 1, 4);
  x.structure.table_chunks = {ChunkId(0), ChunkId(1)};
  x.timing.tied_reduce_ns = 50;
  EXPECT_EQ(x.bound(), 11 + 120 + 21 + 50 + 5);
}

std::int64_t held(ScheduleKind kind, std::int32_t p, std::int32_t v, std::int32_t m, std::int32_t stage) {
  const Pipeline x = pipeline(kind, p, v, m);
  return activations_lower_bound_bytes(costs_of(x.timing, x.structure), x.structure, stage) / 100;
}

// Micro-batches in flight: 1F1B min(m, p − i), GPipe m, ZB-H1 min(m, p), ZB-H2 min(m, 2p − 1).
TEST(Activations, MicroBatchesInFlight) {
  EXPECT_EQ(held(ScheduleKind::one_f_one_b, 4, 1, 8, 0), 4);
  EXPECT_EQ(held(ScheduleKind::one_f_one_b, 4, 1, 8, 3), 1);
  EXPECT_EQ(held(ScheduleKind::one_f_one_b, 4, 1, 2, 0), 2);
  EXPECT_EQ(held(ScheduleKind::gpipe, 4, 1, 8, 3), 8);
  EXPECT_EQ(held(ScheduleKind::zb_h1, 4, 1, 8, 3), 4);
  EXPECT_EQ(held(ScheduleKind::zb_h2, 4, 1, 8, 0), 7);
  EXPECT_EQ(held(ScheduleKind::zb_h2, 4, 1, 8, 3), 7);
  EXPECT_EQ(held(ScheduleKind::zb_h2, 4, 1, 5, 3), 5);
}

// Interleaved has min(mv, pv + p − 2i − 1) chunk passes in flight.
TEST(Activations, ChunkPassesInFlight) {
  EXPECT_EQ(held(ScheduleKind::interleaved, 2, 2, 8, 0), 5);
  EXPECT_EQ(held(ScheduleKind::interleaved, 2, 2, 8, 1), 3);
}

TEST(Activations, TransientsComeOnTop) {
  Pipeline x = pipeline(ScheduleKind::one_f_one_b, 2, 1, 4);
  x.timing.chunks[0].backward_transient_bytes = 30;
  x.timing.chunks[0].forward_transient_bytes = 20;
  EXPECT_EQ(activations_lower_bound_bytes(costs_of(x.timing, x.structure), x.structure, 0), 230);
}

// 1000 static + 500, 10 % reserve.
TEST(PeakBytes, SmallestExample) { EXPECT_EQ(peak_bytes(1000, 500, 0.1), 1650); }
TEST(PeakBytes, RoundsAsTheReplayDoes) { EXPECT_EQ(peak_bytes(7, 0, 0.03), 7); }

}  // namespace
}  // namespace espalier::cost::bound_test::bound_test
