// SPDX-License-Identifier: Apache-2.0
// Scans by hand: the bytes that they keep, the time of their compute, and that split heads divide both.
#include <gtest/gtest.h>

#include "cost/activation_memory.h"
#include "cost/operator_cost.h"
#include "plan/engine_policies.h"

namespace espalier::cost::layer_scan_test {
namespace {

/// Returns a scan of 4 heads in 2 groups, 3 states, 4 features per head: in 2·2·3 + 16 = 28, out 16.
LayerKind layer_of(OperatorKind kind, std::int64_t chunk) {
  Operator op;
  op.kind = kind;
  op.split = TpSplit::heads;
  op.in = 28;
  op.out = 16;
  op.heads = 4;
  op.kv_heads = 2;
  op.qk_dim = 3;
  op.v_dim = 4;
  op.chunk = chunk;
  LayerKind layer;
  layer.operators = {op};
  return layer;
}

LayerGeometry tokens(std::int64_t count, std::int32_t tp = 1) {
  LayerGeometry g;
  g.tokens = g.keys = count;
  g.split = g.weight_split = tp;
  return g;
}

// q, k, v keep 2·10·28 = 560, step and decay 8·10·4 = 320; the delta rule adds its inverse 2·10·4·64 = 5120.
TEST(SavedByScans, InputsStepsAndTheInverse) {
  const auto fused = ActivationPolicy::fused_attention, eager = ActivationPolicy::megatron_2022_unfused;
  EXPECT_EQ(saved_activations(layer_of(OperatorKind::chunked_scan, 16), tokens(10), fused).none, 880);
  EXPECT_EQ(saved_activations(layer_of(OperatorKind::chunked_scan, 16), tokens(10), eager).none, 880);
  EXPECT_EQ(saved_activations(layer_of(OperatorKind::chunked_scan, 16), tokens(10, 2), fused).none, 440);
  EXPECT_EQ(saved_activations(layer_of(OperatorKind::gated_delta, 64), tokens(10), fused).none, 6000);
}

// 8 channels of 3 states over 2048 tokens: u and Δ keep 2·2·2048·8 = 65536, one set of states 8·8·3 = 192, B and C
// 2·2·2048·3 = 24576 on every rank. A convolution keeps its input.
TEST(SavedByScans, SelectiveScanAndConvolution) {
  LayerKind layer = layer_of(OperatorKind::scan, 2048);
  layer.operators[0].in = layer.operators[0].out = 8;
  EXPECT_EQ(saved_activations(layer, tokens(2048), ActivationPolicy::fused_attention).none, 65536 + 192 + 24576);
  EXPECT_EQ(saved_activations(layer, tokens(2048, 2), ActivationPolicy::fused_attention).none, (65536 + 192) / 2 + 24576);
  layer.operators[0].kind = OperatorKind::causal_conv;
  EXPECT_EQ(saved_activations(layer, tokens(2048), ActivationPolicy::fused_attention).none, 2 * 2048 * 8);
}

// A linear parallel to the attention reads what is kept already.
TEST(SavedByScans, ParallelLinearKeepsNothing) {
  Operator op;
  op.kind = OperatorKind::linear;
  op.in = op.out = 8;
  op.split = TpSplit::column;
  LayerKind layer;
  layer.operators = {op};
  EXPECT_EQ(saved_activations(layer, tokens(10), ActivationPolicy::fused_attention).none, 160);
  layer.operators[0].parallel = true;
  EXPECT_EQ(saved_activations(layer, tokens(10), ActivationPolicy::fused_attention).none, 0);
}

// 10 tokens, 4 heads, chunks of 16 take 2·10·4·(16·7 + 2·12) = 10880 FLOPs; with the delta rule 2·10·4·(16·17 + 16²/6
// + 3·12).
TEST(ScanTime, FlopsByHandAndThreeTimesBackward) {
  const ScanShape scan{10, 4, 3, 4, 16, 1000, false}, delta{10, 4, 3, 4, 16, 1000, true};
  EXPECT_DOUBLE_EQ(scan_flops(scan), 10880);
  EXPECT_DOUBLE_EQ(scan_flops(delta), 80 * (272 + 256 / 6.0 + 36));
  DeviceRates d;
  d.scan_kernels = 5;
  d.batched = 1e3;
  d.gemm_memory = 1e12;
  EXPECT_NEAR(chunked_scan_s(d, scan, 1), 10.88, 1e-6);
  EXPECT_NEAR(chunked_scan_s(d, scan, 3), 3 * 10.88, 1e-6);
  d.floor = 1;
  EXPECT_NEAR(chunked_scan_s(d, scan, 1), 5 + 10.88, 1e-6);
}

}  // namespace
}  // namespace espalier::cost::layer_scan_test
