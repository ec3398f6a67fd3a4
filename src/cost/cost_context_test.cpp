// SPDX-License-Identifier: Apache-2.0
// The parts of a cost context are independent: a device kind is priced without a cluster, a fabric without a device.
#include <gtest/gtest.h>

#include "cost/cost_context.h"
#include "cost/test_problem.h"
#include "plan/engine.h"

namespace espalier::cost {
namespace {

using namespace test;

// Two kinds of devices share one fabric. Twice the memory bandwidth changes what reads memory, and nothing of the
// network.
TEST(CostContext, TwoDeviceKindsShareOneFabric) {
  const Model model = model_of(mlp());
  const EngineModel engine = plain_engine("generic");
  const Cluster cluster = round_cluster(2);
  const Training training = tokens(1000);
  DeviceKind faster = cluster.groups.front().device;
  faster.memory_bandwidth = BytesPerSecond(2 * faster.memory_bandwidth.count());
  const CostContext context(model, cluster, training, engine);
  const DeviceCost slow(cluster.groups.front().device, training.precision, engine), fast(faster, training.precision, engine);
  EXPECT_EQ(slow.rates.memory, context.device.rates.memory);
  EXPECT_EQ(slow.memory_bandwidth, context.device.memory_bandwidth);
  EXPECT_EQ(fast.memory_bandwidth, 2 * slow.memory_bandwidth);
  EXPECT_GT(fast.rates.memory, slow.rates.memory);
  EXPECT_EQ(fast.rates.gemm, slow.rates.gemm);
}

// With coefficients.tensor_communication 2 its levels take twice the time, latency 2·l and bandwidth 1/2; the others
// stay as in the fabric model.
TEST(CostContext, TheFabricIsSlowerForCollectivesThatTheEngineRunsSlower) {
  EngineModel engine = plain_engine("generic");
  engine.coefficients.tensor_communication = 2.0;
  const Fabric fabric(round_cluster(2), engine);
  ASSERT_FALSE(fabric.levels.empty());
  for (std::size_t i = 0; i < fabric.levels.size(); ++i) {
    EXPECT_DOUBLE_EQ(fabric.tensor_levels[i].efficiency, fabric.levels[i].efficiency / 2);
    EXPECT_DOUBLE_EQ(fabric.tensor_levels[i].latency.count(), fabric.levels[i].latency.count() * 2);
    EXPECT_EQ(fabric.data_levels[i].efficiency, fabric.levels[i].efficiency);
  }
}

// An fp8 operand of a GEMM is one byte, activations stay at two; fp32 is four bytes for both.
TEST(CostContext, BytesOfAnElementFollowFromThePrecision) {
  const Model model = model_of(mlp());
  Training t = tokens(1000);
  t.precision = Precision::fp8;
  EXPECT_EQ(Workload(model, t).element_bytes, 2);
  EXPECT_EQ(Workload(model, t).operand_bytes, 1);
  t.precision = Precision::fp32;
  EXPECT_EQ(Workload(model, t).element_bytes, 4);
  EXPECT_EQ(Workload(model, t).operand_bytes, 4);
}

}  // namespace
}  // namespace espalier::cost
