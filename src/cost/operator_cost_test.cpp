// SPDX-License-Identifier: Apache-2.0
#include "cost/operator_cost.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "espalier/cluster.h"

namespace espalier::cost {
namespace {

/// 100 TFLOP/s for GEMMs, 50 and 40 for attention, 1 TB/s, work of 2 GFLOP halves the rate, kernels of at least 2 µs.
DeviceRates round_rates() {
  DeviceRates d;
  d.gemm = 100e12, d.attention = 50e12, d.attention_backward = 40e12, d.half = 2e9, d.memory = 1e12, d.floor = 2e-6,
  d.launch = 5e-6;
  return d;
}

// 1024³: 2·2^30 = 2.147 GFLOP, plus the 2 that make the rate saturate: 4.147e9 / 100e12 = 41.47 µs.
TEST(OperatorCost, SmallestExample) {
  EXPECT_NEAR(gemm_s(round_rates(), 1024, 1024, 1024, 2), (2147483648.0 + 2e9) / 100e12, 1e-15);
}

// A GEMM of exactly half GFLOP runs at half of its rate.
TEST(OperatorCost, HalfWorkHalfRate) { EXPECT_NEAR(gemm_s(round_rates(), 1000, 1000, 1000, 2), 2 * 2e9 / 100e12, 1e-15); }

// One row against a 4096² matrix is bound by reading the matrix: 2·(4096 + 4096² + 4096) bytes / 1 TB/s = 33.57 µs > 20.3 µs of work.
TEST(OperatorCost, ThinGemmIsBoundByMemory) {
  EXPECT_NEAR(gemm_s(round_rates(), 1, 4096, 4096, 2), 2 * (4096.0 * 4096 + 2 * 4096) / 1e12, 1e-15);
  // an accumulated gradient is read and written on top
  EXPECT_NEAR(gemm_s(round_rates(), 1, 4096, 4096, 2, 8e6) - gemm_s(round_rates(), 1, 4096, 4096, 2), 8e-6, 1e-15);
}

TEST(OperatorCost, NothingIsFasterThanTheFloor) {
  DeviceRates d = round_rates();
  d.half = 0;
  EXPECT_EQ(gemm_s(d, 1, 1, 1, 2), d.floor);
  EXPECT_EQ(memory_bound_s(d, 1), d.floor);
  EXPECT_EQ(attention_forward_s(d, 1, 1), d.floor);
  EXPECT_EQ(memory_bound_s(d, 4e6), 4e-6);
}

// Eight GEMMs in one kernel: eight times the work, one tail.
TEST(OperatorCost, BatchedGemmHasOneTail) {
  EXPECT_NEAR(batched_gemm_s(round_rates(), 8, 1000, 1000, 1000, 2), (8 * 2e9 + 2e9) / 100e12, 1e-15);
}

// Backward of fused attention: five GEMMs for two, 2.5 × the FLOPs, at its own rate.
TEST(OperatorCost, AttentionBackward) {
  EXPECT_NEAR(attention_forward_s(round_rates(), 98e9, 1e6), 2e-3, 1e-12);
  EXPECT_NEAR(attention_backward_s(round_rates(), 79.2e9, 1e6), 5e-3, 1e-12);  // (198 + 2) GFLOP at 40 TFLOP/s
}

// A causal query sees half of the keys on average. A window of w among n keys: w, but the first queries see fewer: w − w²/2n.
TEST(OperatorCost, MeanKeys) {
  EXPECT_EQ(mean_keys(1000, 0, false), 1000);
  EXPECT_EQ(mean_keys(1000, 0, true), 500);
  EXPECT_EQ(mean_keys(1000, 100, false), 100);
  EXPECT_EQ(mean_keys(1000, 100, true), 95);
  EXPECT_EQ(mean_keys(1000, 1000, true), 500);  // a window of the whole sequence is no window
  EXPECT_EQ(mean_keys(1000, 4096, true), 500);
}

TEST(OperatorCost, RatesOfADevice) {
  DeviceKind d;
  d.peak.fill(TFLOPs(0));
  d.peak[static_cast<std::size_t>(Precision::bf16)] = TFLOPs(1000);
  d.peak[static_cast<std::size_t>(Precision::fp8)] = TFLOPs(2000);
  d.memory_bandwidth = BytesPerSecond(2e12);
  d.efficiency.gemm_max = 0.8, d.efficiency.attention_max = 0.5, d.efficiency.attention_backward = 0.8,
  d.efficiency.sustained = 0.5;
  d.efficiency.memory_max = 0.75, d.efficiency.gemm_half_gflop = 3;
  const DeviceRates bf16 = rates_of(d, Precision::bf16), fp8 = rates_of(d, Precision::fp8);
  EXPECT_DOUBLE_EQ(bf16.gemm, 400e12);
  EXPECT_DOUBLE_EQ(bf16.attention, 250e12);
  EXPECT_DOUBLE_EQ(bf16.attention_backward, 200e12);
  EXPECT_DOUBLE_EQ(bf16.memory, 1.5e12);
  EXPECT_DOUBLE_EQ(bf16.half, 3e9);
  EXPECT_DOUBLE_EQ(fp8.gemm, 800e12);
  EXPECT_DOUBLE_EQ(fp8.attention, bf16.attention);  // attention stays in bf16
}

TEST(OperatorCost, MoreWorkNeverTakesLess) {
  EXPECT_TRUE(rc::check([] {
    const DeviceRates d = round_rates();
    const auto size = [] { return static_cast<double>(*rc::gen::inRange(1, 5000)); };
    const double m = size(), n = size(), k = size(), more = size();
    RC_ASSERT(gemm_s(d, m, n, k, 2) <= gemm_s(d, m + more, n, k, 2));
    RC_ASSERT(gemm_s(d, m, n, k, 2) <= gemm_s(d, m, n + more, k, 2));
    RC_ASSERT(gemm_s(d, m, n, k, 2) <= gemm_s(d, m, n, k + more, 2));
    RC_ASSERT(mean_keys(m, n, true) <= mean_keys(m, n, false));
    RC_ASSERT(mean_keys(m, n, true) <= mean_keys(m + more, n, true) + 1e-9);
  }));
}

}  // namespace
}  // namespace espalier::cost
