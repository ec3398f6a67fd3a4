// SPDX-License-Identifier: Apache-2.0
// Checks the tokens of a step by hand.
#include "plan/step_tokens.h"

#include <gtest/gtest.h>

namespace espalier::plan_test::step_tokens_test {
namespace {

Training of(const Sequence& sequence, std::int64_t batch) {
  Training t;
  t.sequence = sequence;
  t.global_batch = batch;
  return t;
}

TEST(StepTokens, AreThoseOfAllStreams) {
  EXPECT_EQ(tokens_of_step(of({.main = 100}, 8)), 800);
  EXPECT_EQ(tokens_of_step(of({.encoder = 60, .decoder = 40}, 8)), 800);
  EXPECT_EQ(tokens_of_step(of({}, 8)), 8);  // images count samples
  EXPECT_EQ(real_tokens_of_step(of({.main = 100}, 8)), 800);
}

// One sequence of 25 tokens in each sample of 100 makes a quarter real, so a run takes four times as many steps. With
// two packed sequences of 50 everything is real.
TEST(StepTokens, OfPaddedSamplesAQuarterIsReal) {
  Training t = of({.main = 100}, 8);
  t.tokens = 4'000;
  EXPECT_EQ(steps_of_run(t), 5);
  t.lengths.histogram = {{25, 1}};
  EXPECT_EQ(tokens_of_step(t), 800);
  EXPECT_EQ(real_tokens_of_step(t), 200);
  EXPECT_EQ(steps_of_run(t), 20);
  t.lengths = {{{50, 1}}, Packing::packed};
  EXPECT_EQ(real_tokens_of_step(t), 800);
  EXPECT_EQ(steps_of_run(t), 5);
}

}  // namespace
}  // namespace espalier::plan_test::step_tokens_test
