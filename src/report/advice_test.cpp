// SPDX-License-Identifier: Apache-2.0
// Advice follows from the plan: nothing that the plan does not have can be made smaller, nobody can share what one device holds.
#include "report/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace espalier::report {
namespace {

using testing::HasSubstr;
using testing::Not;

PlannerResult result_of(const Strategy& s, const Schedule& c, std::int64_t devices) {
  PlannerResult r;
  r.plan.engine = "generic";
  r.plan.only_pipeline().schedule = c;
  r.plan.only_pipeline().stages = {{{{0, devices, 1}}, {Chunk{{{0, 33, s}}}}}};
  r.prediction.memory_limit_bytes = std::int64_t{80} << 30;
  r.prediction.peak_memory_bytes = std::int64_t{79} << 30;
  r.prediction.memory.activations = std::int64_t{20} << 30;
  r.prediction.memory.gradients = std::int64_t{20} << 30;
  return r;
}

std::string all_advice(const PlannerResult& r) {
  std::string out;
  for (const planner::TimePart& part : planner::time_parts({1, 1, 1, 2, 1})) out += advice(part, r) + "\n";
  return out;
}

TEST(Advice, OneDeviceHasNothingToShare) {
  const std::string text = all_advice(result_of({}, {}, 1));
  EXPECT_THAT(text, Not(HasSubstr("ZeRO")));
  EXPECT_THAT(text, Not(HasSubstr("TP")));
  EXPECT_THAT(text, Not(HasSubstr("overlap")));
}

TEST(Advice, NoSmallerTensorGroupAtTp1) {
  Strategy s;
  s.dp = 8;
  s.overlap.grad_reduce = true;
  const std::string text = all_advice(result_of(s, {}, 8));
  EXPECT_THAT(text, Not(HasSubstr("TP")));
  EXPECT_THAT(text, HasSubstr("ZeRO 1 would share the update among 8 data ranks"));
  s.overlap.grad_reduce = false;
  EXPECT_THAT(all_advice(result_of(s, {}, 8)), HasSubstr("overlap_grad is off"));
}

// An update on the host is no framework's own work: more ranks share it, or the hosts decide.
TEST(Advice, AnOffloadedUpdateIsTheHosts) {
  Strategy s;
  s.dp = 8;
  s.offload = Offload::optimizer;
  EXPECT_THAT(all_advice(result_of(s, {}, 8)), Not(HasSubstr("up to the framework;")));
  EXPECT_THAT(all_advice(result_of(s, {}, 8)), HasSubstr("ZeRO 1 would share the update among 8 data ranks"));
  s.zero = ZeroStage::optimizer;
  s.shard = 8;
  EXPECT_THAT(all_advice(result_of(s, {}, 8)), HasSubstr("the memory bandwidth of the hosts decides"));
}

// Of several groups the largest is named, and halved.
TEST(Advice, NamesTheGroupThatTalksMost) {
  Strategy s;
  s.tp = 4;
  s.cp = 2;
  s.overlap.grad_reduce = true;
  const std::string text = all_advice(result_of(s, {}, 8));
  EXPECT_THAT(text, HasSubstr("TP 2 would send less"));
  EXPECT_THAT(text, Not(HasSubstr("CP 1")));
}

// "or" is decided: an even micro-batch can be halved where micro-batches are few; one sample cannot.
TEST(Advice, BubbleByItsFigures) {
  Schedule c;
  c.stages = 4;
  c.microbatches = 6;
  c.micro_batch = 2;
  EXPECT_THAT(all_advice(result_of({}, c, 4)), HasSubstr("micro-batch 1 would give 12 micro-batches"));
  c.micro_batch = 1;
  EXPECT_THAT(all_advice(result_of({}, c, 4)), HasSubstr("a larger global batch fills them"));
  c.microbatches = 8;
  EXPECT_THAT(all_advice(result_of({}, c, 4)), HasSubstr("interleaving"));
}

TEST(Advice, NoUndecidedOr) {
  for (const std::int32_t tp : {1, 2, 8}) {
    Strategy s;
    s.tp = tp;
    s.dp = 8 / tp;
    EXPECT_THAT(all_advice(result_of(s, {}, 8)), Not(HasSubstr(" or ")));
  }
}

}  // namespace
}  // namespace espalier::report
