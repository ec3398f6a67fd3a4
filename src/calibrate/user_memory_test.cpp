// SPDX-License-Identifier: Apache-2.0
#include "calibrate/user_memory.h"
#include "plan/engine.h"

#include <gtest/gtest.h>

namespace espalier::calibrate {
namespace {

UserRow peak(const char* kind, std::int64_t predicted, std::int64_t measured) {
  UserRow row;
  row.row.result.memory_kind = kind;
  row.row.result.predicted_bytes = predicted;
  row.row.result.measured_bytes = measured;
  return row;
}

EngineModel engine_with_reserve(double reserve) {
  EngineModel engine;
  engine.memory.allocator_reserve = reserve;
  return engine;
}

// Tensors of 1000, measured 1100 and 1150, give r̄ = 0.125. n/σ² = 800, 1/σ₀² = 100: (0.125·800 + 0.06·100)/900 =
// 0.11778.
TEST(UserMemory, TheReserveIsThePosteriorMean) {
  const auto fit = fit_memory({peak("reserved", 1060, 1100), peak("reserved", 1060, 1150)}, engine_with_reserve(0.06));
  ASSERT_TRUE(fit.has_value());
  EXPECT_EQ(fit->reserved_runs, 2);
  EXPECT_NEAR(fit->reserve, 106.0 / 900, 1e-12);
  EXPECT_NEAR(fit->before, (40.0 / 1100 + 90.0 / 1150) / 2, 1e-12);
  EXPECT_LT(fit->after, fit->before);
}

TEST(UserMemory, AllocatedBytesAdaptNothing) {
  const auto fit = fit_memory({peak("allocated", 900, 1000)}, engine_with_reserve(0.06));
  ASSERT_TRUE(fit.has_value());
  EXPECT_EQ(fit->reserve, 0.06);
  EXPECT_NEAR(fit->allocated, 0.1, 1e-12);
  EXPECT_FALSE(fit_memory({UserRow{}}, engine_with_reserve(0.06)).has_value());
}

TEST(UserMemory, AReserveStaysWithinItsRange) {
  EXPECT_EQ(fit_memory({peak("reserved", 1060, 9000)}, engine_with_reserve(0.06))->reserve, 0.5);
  EXPECT_EQ(fit_memory({peak("reserved", 1060, 100)}, engine_with_reserve(0.06))->reserve, 0.0);
}

}  // namespace
}  // namespace espalier::calibrate
