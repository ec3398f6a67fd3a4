// SPDX-License-Identifier: Apache-2.0
#include "cost/overlap.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace espalier::cost {
namespace {

// w = 10, c = 4, κ = 1.25 both: the communication runs 4·1.25 = 5 s, in which compute does 5/1.25 = 4 s of its work.
// With the 6 s that remain it is 11 s.
TEST(Overlap, SmallestExample) { EXPECT_DOUBLE_EQ(pair_time(4, 10, {1.25, 1.25}), 11); }
TEST(Overlap, NoSlowdownGivesTheMaximum) {
  EXPECT_DOUBLE_EQ(pair_time(4, 10, {}), 10);
  EXPECT_DOUBLE_EQ(pair_time(10, 4, {}), 10);
}
// κ_c = 4, κ_w = 3: as 1/4 + 1/3 < 1, overlap is slower than one after the other, so they are run serially.
TEST(Overlap, StrongFactorsAreRunSerially) { EXPECT_DOUBLE_EQ(pair_time(5, 5, {4, 3}), 10); }

TEST(Overlap, BetweenMaximumAndSum) {
  EXPECT_TRUE(rc::check([] {
    const double c = *rc::gen::inRange(0, 1000), w = *rc::gen::inRange(0, 1000);
    const double kc = 1 + *rc::gen::inRange(0, 100) / 100.0, kw = 1 + *rc::gen::inRange(0, 100) / 100.0;
    RC_PRE(1 / kc + 1 / kw >= 1);
    const double together = pair_time(c, w, {kc, kw});
    RC_ASSERT(together <= c + w + 1e-9);
    RC_ASSERT(together >= std::max(c, w) - 1e-9);
  }));
}

}  // namespace
}  // namespace espalier::cost
