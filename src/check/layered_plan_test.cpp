// SPDX-License-Identifier: Apache-2.0
// A plan whose layers have strategies of their own, by hand.
#include <gtest/gtest.h>

#include "check/test_problem.h"

namespace espalier::check {
namespace {

using namespace test;

// By hand: a block has 4·64² + 2·64·256 weights, 9·64 + 256 biases and norms; each rank of two holds half of what tp splits (not
// the norms and the biases after row linears: 6·64). The head reads the embedding's table. 18 bytes an element.
TEST(LayeredPlans, SmallestExample) {
  Strategy data, tensor;
  data.dp = 2;
  tensor.tp = 2;
  tensor.sp = SequenceParallel::megatron;
  const Case c = make_layered_case(model_of(gpt(2)), {{{0, 0, data}, {1, 2, tensor}, {3, 3, data}}},
                                   schedule_of(ScheduleKind::one_f_one_b, 1, 1, 2));
  EXPECT_TRUE(c.check().ok()) << broken(c.check());
  const View view = make_view(c.plan, c.model, c.cluster);
  const std::int64_t split = 4 * 64 * 64 + 2 * 64 * 256 + 3 * 64 + 256, whole = 6 * 64;
  const std::int64_t embedding = 1000 * 64 + 128 * 64, head = 2 * 64;
  EXPECT_EQ(elements_per_stage(view)[0].dense, 2 * (split / 2 + whole) + embedding + head);
  EXPECT_EQ(static_bytes_per_stage(view)[0], 18 * (2 * (split / 2 + whole) + embedding + head));
  EXPECT_EQ(view_of(view, tensor).micro_batch, 2);
}

}  // namespace
}  // namespace espalier::check
