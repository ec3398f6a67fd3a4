// SPDX-License-Identifier: Apache-2.0
#include "cost/operator_cost.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "espalier/cluster.h"

namespace espalier::cost {
namespace {

/// Returns 100 TFLOP/s for GEMMs, 50 and 40 for attention, 1 TB/s, and 2 µs per kernel in addition to its work.
DeviceRates round_rates() {
  DeviceRates d;
  d.gemm = d.batched = d.grouped = 100e12;
  d.attention = 50e12;
  d.attention_backward = 40e12;
  d.gemm_memory = d.memory = 1e12;
  d.floor = 2e-6;
  d.launch = 5e-6;
  return d;
}

// 3000 × 2000 × 1000: 12 GFLOP / 100 TFLOP/s = 120 µs; 2·(3 + 2 + 6)·10⁶ bytes / 1 TB/s = 22 µs; 2 + √(120² + 22²) =
// 124.0 µs.
TEST(OperatorCost, SmallestExample) {
  EXPECT_NEAR(gemm_s(round_rates(), 100e12, 3000, 2000, 1000, 2), 2e-6 + std::sqrt(120e-6 * 120e-6 + 22e-6 * 22e-6), 1e-15);
}

// One byte per operand and two per result: 3 + 2 + 2·6 = 17 MB.
TEST(OperatorCost, EightBitOperandsGiveSixteenBitResults) {
  EXPECT_NEAR(gemm_s(round_rates(), 100e12, 3000, 2000, 1000, 1), 2e-6 + std::sqrt(120e-6 * 120e-6 + 17e-6 * 17e-6), 1e-15);
}

// One row against a 4096² matrix is bound by reading the matrix: 33.6 µs, where 0.34 µs of work hardly show.
TEST(OperatorCost, ThinGemmIsBoundByMemory) {
  const double bytes = 2 * (4096.0 * 4096 + 2 * 4096) / 1e12, t = gemm_s(round_rates(), 100e12, 1, 4096, 4096, 2) - 2e-6;
  EXPECT_GT(t, bytes);
  EXPECT_LT(t, 1.001 * bytes);
}

// A product adds to a gradient of 8 bytes per element. 120 µs of work hide the 6·8 MB of 3000 × 2000 and its own 22.
// At one tenth of the depth, 12 µs of work and 13 µs of operands and result do not hide 61 µs.
TEST(OperatorCost, AccumulatedGradientsAreHiddenUntilMemoryIsFull) {
  const DeviceRates d = round_rates();
  EXPECT_EQ(gemm_s(d, 100e12, 3000, 2000, 1000, 2, 48e6), gemm_s(d, 100e12, 3000, 2000, 1000, 2));
  EXPECT_NEAR(gemm_s(d, 100e12, 3000, 2000, 100, 2, 48e6), 2e-6 + 61e-6, 1e-15);
  EXPECT_NEAR(batched_gemm_s(d, 100e12, 2, 3000, 2000, 100, 2, 96e6), 2e-6 + 122e-6, 1e-15);
}

TEST(OperatorCost, EveryKernelTakesTheFloorOnTop) {
  const DeviceRates d = round_rates();
  EXPECT_EQ(gemm_s(d, d.gemm, 0, 0, 0, 2), d.floor);
  EXPECT_NEAR(memory_bound_s(d, 4e6), 6e-6, 1e-15);
  EXPECT_EQ(attention_forward_s(d, {0, 0, 0, 0, 0}), d.floor);
}

// Eight GEMMs in one kernel have eight times the work and one floor.
TEST(OperatorCost, BatchedGemmHasOneFloor) {
  const DeviceRates d = round_rates();
  EXPECT_NEAR(batched_gemm_s(d, d.grouped, 8, 1000, 1000, 1000, 2) - d.floor,
              8 * (gemm_s(d, d.gemm, 1000, 1000, 1000, 2) - d.floor), 1e-15);
}

// 1000 queries × heads, 500 keys each, d_qk + d_v = 200: 2·200·500 000 = 200 MFLOP: 4 µs at 50 TFLOP/s, and 1 MB: 1 µs.
TEST(OperatorCost, Attention) {
  DeviceRates d = round_rates();
  const AttentionCall shape{1000, 500, 1000, 200, 1e6};
  EXPECT_NEAR(attention_forward_s(d, shape), 2e-6 + 4e-6 + 1e-6, 1e-15);
  EXPECT_NEAR(attention_backward_s(d, shape), 2e-6 + 2.5 * (5e-6 + 1e-6), 1e-15);  // five GEMMs for two, at 40 TFLOP/s
  d.softmax = 50;  // the softmax costs what half of the products do
  EXPECT_NEAR(attention_forward_s(d, shape), 2e-6 + 6e-6 + 1e-6, 1e-15);
  d.prologue = 500;  // each query costs another 500 keys
  EXPECT_NEAR(attention_forward_s(d, shape), 2e-6 + 12e-6 + 1e-6, 1e-15);
  d.rows = 1000;  // 1000 rows of another 1000 keys: as much again
  EXPECT_NEAR(attention_forward_s(d, shape), 2e-6 + 24e-6 + 1e-6, 1e-15);
}

// A causal query attends to half of the keys on average. With a window of w among n keys it is w, but the first
// queries attend to fewer: w − w²/2n.
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
  DeviceEfficiency& e = d.efficiency;
  e.gemm_max = 0.8;
  e.attention_max = 0.5;
  e.attention_backward = 0.8;
  e.sustained = 0.5;
  e.gemm_memory = 0.75;
  e.gemm_fp8 = 0.9;
  e.gemm_batched = 0.5;
  e.gemm_grouped = 0.75;
  e.memory_max = 0.75;
  e.attention_softmax = 64;
  e.attention_prologue = 100;
  e.attention_rows = 1000;
  const DeviceRates bf16 = rates_of(d, Precision::bf16), fp8 = rates_of(d, Precision::fp8);
  EXPECT_DOUBLE_EQ(bf16.gemm, 400e12);
  EXPECT_DOUBLE_EQ(bf16.batched, 200e12);
  EXPECT_DOUBLE_EQ(bf16.grouped, 300e12);
  EXPECT_DOUBLE_EQ(bf16.attention, 375e12);  // 250 at head size 128, where 64 + 128 units of work are 128 of products
  EXPECT_DOUBLE_EQ(bf16.attention_backward, 300e12);
  EXPECT_DOUBLE_EQ(bf16.memory, 1.5e12);
  EXPECT_DOUBLE_EQ(fp8.gemm, 720e12);
  EXPECT_DOUBLE_EQ(fp8.batched, bf16.batched);  // attention stays in bf16
  EXPECT_DOUBLE_EQ(fp8.attention, bf16.attention);
}

TEST(OperatorCost, MoreWorkNeverTakesLess) {
  EXPECT_TRUE(rc::check([] {
    const DeviceRates d = round_rates();
    const auto size = [] { return static_cast<double>(*rc::gen::inRange(1, 5000)); };
    const double m = size(), n = size(), k = size(), more = size();
    RC_ASSERT(gemm_s(d, d.gemm, m, n, k, 2) <= gemm_s(d, d.gemm, m + more, n, k, 2));
    RC_ASSERT(gemm_s(d, d.gemm, m, n, k, 2) <= gemm_s(d, d.gemm, m, n + more, k, 2));
    RC_ASSERT(gemm_s(d, d.gemm, m, n, k, 2) <= gemm_s(d, d.gemm, m, n, k + more, 2));
    RC_ASSERT(mean_keys(m, n, true) <= mean_keys(m, n, false));
    RC_ASSERT(mean_keys(m, n, true) <= mean_keys(m + more, n, true) + 1e-9);
  }));
}

}  // namespace
}  // namespace espalier::cost
