// SPDX-License-Identifier: Apache-2.0
// Tests grids of timelines that are made by hand.
#include "espalier/schedule_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace espalier::report {
namespace {

using testing::HasSubstr;
using testing::Not;

TimelineSpan pass(InstructionKind kind, std::int32_t microbatch, std::int64_t start_ns, std::int64_t end_ns,
                  std::int32_t chunk = 0) {
  TimelineSpan span;
  span.kind = kind;
  span.microbatch = microbatch;
  span.chunk = chunk;
  span.start_ns = start_ns;
  span.end_ns = end_ns;
  return span;
}

/// Returns two stages with two micro-batches, a forward of 10 ns and a backward of 20: 1F1B without communication.
/// The update takes 10.
Timeline two_stages() {
  constexpr auto kF = InstructionKind::forward, kB = InstructionKind::backward, kU = InstructionKind::optimizer;
  Timeline t;
  t.iteration_ns = 100;
  t.microbatches = 2;
  t.ranks.resize(2);
  t.ranks[1].stage = 1;
  t.ranks[0].spans = {pass(kF, 0, 0, 10), pass(kF, 1, 10, 20), pass(kB, 0, 40, 60), pass(kB, 1, 70, 90), pass(kU, -1, 90, 100)};
  t.ranks[1].spans = {pass(kF, 0, 10, 20), pass(kB, 0, 20, 40), pass(kF, 1, 40, 50), pass(kB, 1, 50, 70), pass(kU, -1, 70, 80)};
  return t;
}

PlannerResult two_devices() {
  PlannerResult r;
  r.plan.only_pipeline().stages = {{{{0, 1, 1}}, {Chunk{{{0, 2, {}}}}}}, {{{1, 1, 1}}, {Chunk{{{3, 5, {}}}}}}};
  r.prediction.iteration_ns = 100;
  r.prediction.peak_memory_bytes_per_stage = {2LL << 30, 1LL << 30};
  r.prediction.bottleneck.busy_per_stage = {0.7, 0.6};
  return r;
}

TEST(ScheduleGrid, EachSlotNamesWhatBeginsInIt) {
  const std::string text = schedule_grid(two_devices(), two_stages());
  EXPECT_THAT(text, HasSubstr("stage 0  F0 F1 .  .  B0 -  .  B1 -  U\n"));
  EXPECT_THAT(text, HasSubstr("stage 1  .  F0 B0 -  F1 B1 -  U  .  .\n"));
  EXPECT_THAT(text, HasSubstr("2 micro-batches"));
  EXPECT_THAT(text, Not(HasSubstr("left out")));
}

TEST(ScheduleGrid, StagesHaveTheirDevicesLayersAndMemory) {
  const std::string text = schedule_grid(two_devices(), two_stages());
  EXPECT_THAT(text, testing::ContainsRegex("0 +0 +0-2 +2.0 GiB +70.0 %"));
  EXPECT_THAT(text, testing::ContainsRegex("1 +1 +3-5 +1.0 GiB +60.0 %"));
}

// With 38 columns, the label takes 9 and the gap 4. They leave eight cells of three, four of them in front.
TEST(ScheduleGrid, ANarrowOneShowsBeginningAndEnd) {
  const std::string text = schedule_grid(two_devices(), two_stages(), {38, false});
  EXPECT_THAT(text, HasSubstr("stage 0  F0 F1 .  .  ... .  B1 -  U\n"));
  EXPECT_THAT(text, HasSubstr("2 of 10 columns"));
  std::size_t from = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; from = end + 1, end = text.find('\n', from))
    EXPECT_LE(end - from, 38u) << text.substr(from, end - from);
}

TEST(ScheduleGrid, ChunksAndHalvesOfTheBackwardPassHaveNames) {
  Timeline t;
  t.iteration_ns = 50;
  t.microbatches = 1;
  t.ranks.resize(1);
  t.ranks[0].spans = {pass(InstructionKind::forward, 0, 0, 10, 0), pass(InstructionKind::forward, 0, 10, 20, 1),
                      pass(InstructionKind::backward_input, 0, 20, 30, 1), pass(InstructionKind::backward_weight, 0, 30, 40, 1)};
  const std::string text = schedule_grid(two_devices(), t);
  EXPECT_THAT(text, HasSubstr("stage 0  0F0 1F0 1I0 1W0 .\n"));
  EXPECT_THAT(text, HasSubstr("before it the chunk"));
}

TEST(ScheduleGrid, BucketsOfOnePassAreOne) {
  Timeline t = two_stages();
  TimelineSpan second = t.ranks[0].spans[2];
  t.ranks[0].spans[2].end_ns = 50;
  t.ranks[0].spans[2].buckets = second.buckets = 2;
  second.bucket = 1;
  second.start_ns = 50;
  t.ranks[0].spans.insert(t.ranks[0].spans.begin() + 3, second);
  EXPECT_THAT(schedule_grid(two_devices(), t), HasSubstr("stage 0  F0 F1 .  .  B0 -  .  B1 -  U\n"));
}

TEST(ScheduleGrid, AsciiIsAscii) {
  PlannerResult r = two_devices();
  for (Stage& stage : r.plan.only_pipeline().stages)
    for (Chunk& chunk : stage.chunks) {
      chunk.ranges[0].strategy.tp = 2;
      chunk.ranges[0].strategy.sp = SequenceParallel::megatron;
    }
  const std::string text = schedule_grid(r, two_stages(), {80, true});
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; })) << text;
  EXPECT_THAT(text, HasSubstr("TP2"));
}

}  // namespace
}  // namespace espalier::report
