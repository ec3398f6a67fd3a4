// SPDX-License-Identifier: Apache-2.0
#include "base/statistics.h"

#include <gtest/gtest.h>

namespace espalier::base {
namespace {

// In 1, 2, 4, 10 the middle two are 2 and 4, with mean 3. A quarter of the way from rank 0 to rank 3 is rank 0.75: 1
// + 0.75 · (2 − 1).
TEST(Statistics, MedianAndQuantileOfFour) {
  EXPECT_DOUBLE_EQ(median({10, 1, 4, 2}), 3);
  EXPECT_DOUBLE_EQ(quantile({10, 1, 4, 2}, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile({10, 1, 4, 2}, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile({10, 1, 4, 2}, 1), 10);
}

TEST(Statistics, OddAndEmpty) {
  EXPECT_DOUBLE_EQ(median({5, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({}), 0);
  EXPECT_DOUBLE_EQ(quantile({}, 0.9), 0);
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_NEAR(quantile({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0.9), 9, 1e-12);
}

}  // namespace
}  // namespace espalier::base
