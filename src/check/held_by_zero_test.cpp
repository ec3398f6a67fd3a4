// SPDX-License-Identifier: Apache-2.0
// Tests what DeepSpeed's ZeRO keeps: two blocks, a tied table of 64,000 elements and 128 positions on four ranks.
#include "check/held_by_zero.h"

#include <gtest/gtest.h>

#include "check/static_memory.h"
#include "check/test_problem.h"

namespace espalier::check::held_by_zero_test {
namespace {

using namespace test;

Case under(std::int32_t zero, const char* engine) {
  Strategy s;
  s.dp = 4;
  s.zero = ZeroStage{zero};
  s.shard = zero == 0 ? 1 : 4;
  Case c = make_case(model_of(gpt(2)), s, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1));
  c.plan.engine = engine;
  return c;
}

std::int64_t held(std::int32_t zero, const char* engine) {
  const Case c = under(zero, engine);
  return held_by_zero(make_view(c.plan, c.model, c.cluster)).front();
}

std::int64_t elements() {
  const Case c = under(0, "generic");
  return elements_per_stage(make_view(c.plan, c.model, c.cluster)).front().dense;
}

// The embedding is the largest layer: the table and 128 positions of 64 features. Buckets have 1,000 elements.
TEST(HeldByZero, ByHand) {
  const std::int64_t all = elements(), embedding = 64000 + 128 * 64;
  ASSERT_EQ(all % 4, 0);
  EXPECT_EQ(held(3, "generic"), 0);
  EXPECT_EQ(held(0, "deepspeed+reduce-bucket=1000"), 2 * 1000 + 4 * all);
  EXPECT_EQ(held(1, "deepspeed+reduce-bucket=1000"), 2 * 1000 + 8 * std::min(embedding, all / 4));
  EXPECT_EQ(held(2, "deepspeed+reduce-bucket=1000"), 2 * 1000 + 2 * embedding + 8 * std::min(embedding, all / 4));
  const std::int64_t norm = 8 * embedding / 4;
  EXPECT_EQ(held(3, "deepspeed+reduce-bucket=1000+live-parameters=90000+reuse-distance=0+sub-group=100"),
            2 * 90000 + 2 * 1000 + 2 * embedding + norm);
  EXPECT_EQ(held(3, "deepspeed+reduce-bucket=1000"), 2 * all + 2 * 1000 + 2 * embedding + std::max(norm, 6 * all / 4));
}

TEST(HeldByZero, WhatIsNotLiveIsGatheredTwice) {
  const auto twice = [](const char* engine) {
    const Case c = under(3, engine);
    const View view = make_view(c.plan, c.model, c.cluster);
    return gathered_twice(view, view.chunks.front().ranges.front().strategy);
  };
  EXPECT_EQ(twice("generic"), 1);
  EXPECT_EQ(twice("deepspeed"), 0);
  EXPECT_NEAR(twice("deepspeed+live-parameters=0+reuse-distance=40000"), 1 - 20000.0 / static_cast<double>(elements()), 1e-12);
}

}  // namespace
}  // namespace espalier::check::held_by_zero_test
