// SPDX-License-Identifier: Apache-2.0
#include "runtime/operator_clock.h"

#include <gtest/gtest.h>

namespace espalier::runtime {
namespace {

using profile::MeasuredShape;
using profile::OperatorWork;

const OperatorWork kLinear{{OperatorKind::linear, 128, 256}, 100};

TEST(OperatorClock, ADeviceIsItsRatesItsLaunchAndItsSpeed) {
  const auto pace = pace_from("flops=1e9,bandwidth=1e8,launch=1e-3,speed:1=0.5", 0);
  ASSERT_TRUE(pace);
  // 2·100·128·256 = 6,553,600 operations take 6.5536 ms; 4·(100·384 + 128·256) = 284,672 bytes take 2.85 ms.
  EXPECT_NEAR(pace->seconds(kLinear, Pass::forward), 1e-3 + 6.5536e-3, 1e-9);
  EXPECT_NEAR(pace->seconds(kLinear, Pass::weight_gradient), 1e-3 + 6.5536e-3, 1e-9);
  // Attention of 100 tokens over 50 keys, with 4 heads of 16, has 4·100·50·64 = 1,280,000 operations. Gradients take
  // twice as many, none of them for weights.
  const OperatorWork attention{{OperatorKind::attention, 0, 0, 4, 4, 16, 50}, 100};
  EXPECT_NEAR(pace->seconds(attention, Pass::forward), 1e-3 + 1.28e-3, 1e-9);
  EXPECT_NEAR(pace->seconds(attention, Pass::input_gradient), 1e-3 + 2.56e-3, 1e-9);
  EXPECT_EQ(pace->seconds(attention, Pass::weight_gradient), 0);
  EXPECT_NEAR(pace->update_seconds(1000), 1e-3 + 3.2e-4, 1e-9);
  const auto slow = pace_from("flops=1e9,bandwidth=1e8,launch=1e-3,speed:1=0.5", 1);
  ASSERT_TRUE(slow);
  EXPECT_NEAR(slow->seconds(kLinear, Pass::forward), 2 * (1e-3 + 6.5536e-3), 1e-9);
}

TEST(OperatorClock, APaceThatSaysNothingUsefulIsRefused) {
  for (const char* text : {"flops", "flops=", "flops=0", "flops=1e9", "flops=-1,bandwidth=1", "speed:0=0.5",
                           "flops=1e9,bandwidth=1e8,lunch=1", "flops=nan,bandwidth=1", "flops=1e9x,bandwidth=1"})
    EXPECT_FALSE(pace_from(text, 0)) << text;
  EXPECT_TRUE(pace_from("", 0));
  EXPECT_FALSE(pace_from("", 0)->plays());
}

TEST(OperatorClock, AnOperatorLastsWhatTheDeviceTakesAndCollectivesAreNotItsOwn) {
  OperatorClock clock(*pace_from("flops=1e9,bandwidth=1e8,launch=1e-3", 0));
  double busy = 0;
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto begin = now();
  for (int i = 0; i < 5; ++i) {
    clock.run(
        {kLinear, Pass::forward}, [&] { return busy; },
        [&] {
          const auto from = now();
          while (now() - from < std::chrono::milliseconds(3)) {
          }
          busy += std::chrono::duration<double>(now() - from).count();  // all of it was a collective
        });
  }
  const double took = std::chrono::duration<double>(now() - begin).count();
  EXPECT_GE(took, 5 * 10.5e-3);  // 7.5 ms of the operator plus 3 ms of the collective
  ASSERT_EQ(clock.rows().size(), 1u);
  EXPECT_GE(clock.rows().front().time.forward, 7e-3);
  EXPECT_EQ(clock.late(), 0);
  clock.restart();
  EXPECT_TRUE(clock.rows().empty());
}

}  // namespace
}  // namespace espalier::runtime
