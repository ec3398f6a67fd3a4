// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace espalier::plan_test::schedule_test {
namespace {

Schedule make(ScheduleKind kind, std::int32_t p, std::int32_t v, std::int32_t m) { return {kind, p, v, m, 1}; }

/// Returns "F0 F1 B0": a letter, a prime for each local chunk after the first, and the micro-batch. B is the backward
/// or input gradient.
std::string text(const std::vector<ChunkPass>& order) {
  std::string result;
  for (const ChunkPass& step : order) {
    if (!result.empty()) result += ' ';
    result += step.kind == InstructionKind::forward ? 'F' : step.kind == InstructionKind::backward_weight ? 'W' : 'B';
    result += std::string(static_cast<std::size_t>(step.local_chunk), '\'') + std::to_string(step.microbatch);
  }
  return result;
}

// With two stages and three micro-batches, the first stage runs one forward ahead (p − i − 1 = 1), the last none.
TEST(Schedule, OneFOneBAlternatesAfterItsWarmUp) {
  const Schedule s = make(ScheduleKind::one_f_one_b, 2, 1, 3);
  EXPECT_EQ(text(compute_order(s, 0)), "F0 F1 B0 F2 B1 B2");
  EXPECT_EQ(text(compute_order(s, 1)), "F0 B0 F1 B1 F2 B2");
}

TEST(Schedule, OneStageAccumulatesGradients) {
  EXPECT_EQ(text(compute_order(make(ScheduleKind::one_f_one_b, 1, 1, 3), 0)), "F0 B0 F1 B1 F2 B2");
}

TEST(Schedule, GpipeRunsAllForwardsFirst) {
  EXPECT_EQ(text(compute_order(make(ScheduleKind::gpipe, 2, 1, 3), 1)), "F0 F1 F2 B0 B1 B2");
}

// With p = 2, v = 2, m = 2, the warm-up of stage 0 has all 2·1 + 1·2 = 4 passes, and that of stage 1 has 0 + 2.
TEST(Schedule, InterleavedPassesPMicrobatchesThroughEachChunk) {
  const Schedule s = make(ScheduleKind::interleaved, 2, 2, 2);
  EXPECT_EQ(text(compute_order(s, 0)), "F0 F1 F'0 F'1 B'0 B'1 B0 B1");
  EXPECT_EQ(text(compute_order(s, 1)), "F0 F1 F'0 B'0 F'1 B'1 B0 B1");
}

// Weight gradients of stage i run i micro-batches late.
TEST(Schedule, ZbH1DelaysWeightGradients) {
  const Schedule s = make(ScheduleKind::zb_h1, 2, 1, 3);
  EXPECT_EQ(text(compute_order(s, 0)), "F0 F1 B0 W0 F2 B1 W1 B2 W2");
  EXPECT_EQ(text(compute_order(s, 1)), "F0 B0 F1 B1 W0 F2 B2 W1 W2");
}

// Stage i runs 2(p − i) − 1 forwards before its first input gradient, and weight gradients 2i micro-batches late. With
// p = 2 the first stage runs three forwards and no late gradients, the second one forward and two late gradients.
TEST(Schedule, ZbH2RunsTwiceAsFarAhead) {
  const Schedule two = make(ScheduleKind::zb_h2, 2, 1, 4);
  EXPECT_EQ(text(compute_order(two, 0)), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
  EXPECT_EQ(text(compute_order(two, 1)), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
  const Schedule four = make(ScheduleKind::zb_h2, 4, 1, 8);
  EXPECT_EQ(text(compute_order(four, 0)), "F0 F1 F2 F3 F4 F5 F6 B0 W0 F7 B1 W1 B2 W2 B3 W3 B4 W4 B5 W5 B6 W6 B7 W7");
  EXPECT_EQ(text(compute_order(four, 1)), "F0 F1 F2 F3 F4 B0 F5 B1 F6 B2 W0 F7 B3 W1 B4 W2 B5 W3 B6 W4 B7 W5 W6 W7");
  EXPECT_EQ(text(compute_order(four, 2)), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 W0 F7 B5 W1 B6 W2 B7 W3 W4 W5 W6 W7");
  EXPECT_EQ(text(compute_order(four, 3)), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 W0 F7 B7 W1 W2 W3 W4 W5 W6 W7");
  EXPECT_EQ(max_whole(four, 0), 7);
  EXPECT_EQ(max_whole(four, 3), 1);
  EXPECT_EQ(max_in_flight(four, 0), 7);
  EXPECT_EQ(max_in_flight(four, 3), 7);
}

// One stage of a V holds both ends: forward through both chunks, then back.
TEST(Schedule, ZbVTurnsOnTheLastStage) {
  EXPECT_EQ(text(compute_order(make(ScheduleKind::zb_v, 1, 2, 2), 0)), "F0 F'0 B'0 W'0 F1 B0 W0 F'1 B'1 W'1 B1 W1");
}

TEST(Schedule, ChunksArePlacedInLoopsOrInAV) {
  const Schedule loop = make(ScheduleKind::interleaved, 4, 2, 4), vee = make(ScheduleKind::zb_v, 4, 2, 8);
  EXPECT_EQ(pipeline_chunk(loop, 1, 1), 5);
  EXPECT_EQ(pipeline_chunk(vee, 1, 1), 6);
  for (const Schedule& s : {loop, vee}) {
    for (std::int32_t c = 0; c < 8; ++c) {
      const ChunkPlace place = place_of_chunk(s, c);
      EXPECT_EQ(pipeline_chunk(s, place.stage, place.local_chunk), c);
    }
  }
}

/// Returns all legal schedules with p in {1,2,3,4,7,8}, m ≤ 16, v ≤ 4.
std::vector<Schedule> all_schedules() {
  std::vector<Schedule> all;
  for (const std::int32_t p : {1, 2, 3, 4, 7, 8}) {
    for (std::int32_t m = 1; m <= 16; ++m) {
      for (const ScheduleKind kind : kScheduleKinds)
        if (!has_chunks(kind)) all.push_back(make(kind, p, 1, m));
      all.push_back(make(ScheduleKind::zb_v, p, 2, m));
      for (std::int32_t v = 1; v <= 4; ++v) all.push_back(make(ScheduleKind::interleaved, p, v, m));
    }
  }
  return all;
}

std::string name_of(const Schedule& s, std::int32_t stage) {
  return "kind " + std::to_string(static_cast<int>(s.kind)) + " p" + std::to_string(s.stages) + " v" +
         std::to_string(s.virtual_stages) + " m" + std::to_string(s.microbatches) + " stage " + std::to_string(stage);
}

TEST(Schedule, EveryStepOnceAndInOrder) {
  for (const Schedule& s : all_schedules()) {
    for (std::int32_t i = 0; i < s.stages; ++i) {
      std::map<std::pair<std::int32_t, std::int32_t>, std::string> steps;  // (chunk, micro-batch) → kinds in order
      for (const ChunkPass& step : compute_order(s, i)) {
        steps[{step.local_chunk, step.microbatch}] += std::to_string(static_cast<int>(step.kind));
      }
      ASSERT_EQ(steps.size(), static_cast<std::size_t>(s.virtual_stages * s.microbatches)) << name_of(s, i);
      const std::string expected = splits_backward(s.kind) ? "023" : "01";  // forward, (backward | input, weight)
      for (const auto& [key, kinds] : steps) ASSERT_EQ(kinds, expected) << name_of(s, i);
    }
  }
}

/// Returns the maximum of passes that are forwarded and not yet freed (by the whole backward, or the weight gradient).
std::int32_t measured_in_flight(const std::vector<ChunkPass>& order) {
  std::int32_t now = 0, most = 0;
  for (const ChunkPass& step : order) {
    if (step.kind == InstructionKind::forward) most = std::max(most, ++now);
    if (step.kind == InstructionKind::backward || step.kind == InstructionKind::backward_weight) --now;
  }
  return most;
}

/// Returns the limits as published; interleaved for m mod p = 0 and m < p.
std::int32_t published_in_flight(const Schedule& s, std::int32_t i) {
  const std::int32_t p = s.stages, m = s.microbatches, v = s.virtual_stages;
  switch (s.kind) {
    case ScheduleKind::gpipe: return m;
    case ScheduleKind::one_f_one_b: return std::min(m, p - i);
    case ScheduleKind::interleaved: return std::min(m * v, p * v + p - 2 * i - 1);
    case ScheduleKind::zb_h1: return std::min(m, p);
    case ScheduleKind::zb_v: return std::min(2 * m, 2 * p);
    case ScheduleKind::zb_h2: return std::min(m, 2 * p - 1);
  }
  return 0;
}

TEST(Schedule, InFlightIsWhatTheFormulasSay) {
  for (const Schedule& s : all_schedules()) {
    const std::int32_t p = s.stages, m = s.microbatches;
    const bool exact = s.kind != ScheduleKind::zb_v;
    for (std::int32_t i = 0; i < p; ++i) {
      const std::int32_t measured = measured_in_flight(compute_order(s, i));
      const std::int32_t limit = max_in_flight(s, i);
      ASSERT_TRUE(exact ? measured == limit : measured <= limit) << name_of(s, i) << ": " << measured << ", limit " << limit;
      if (s.kind == ScheduleKind::interleaved && m % p != 0 && m > p) continue;
      ASSERT_EQ(limit, published_in_flight(s, i)) << name_of(s, i);
    }
  }
}

}  // namespace
}  // namespace espalier::plan_test::schedule_test
