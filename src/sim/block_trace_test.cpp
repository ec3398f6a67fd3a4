// SPDX-License-Identifier: Apache-2.0
#include "sim/block_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cost/partitioned_block.h"
#include "cost/test_opt_block.h"
#include "plan/engine.h"

namespace espalier::sim {
namespace {

using cost::test::block_of;
using cost::test::decoder;
using cost::test::training;
using cost::test::v100s;

const std::string kPrimitive =
    "attn.norm R,M,N; attn.qkv K,P2; attn.core H,H,H; attn.out N,P2; attn.residual R,M,N; mlp.norm R,M,N; mlp.up K,P2; "
    "mlp.activation N,M,N; mlp.down N,P2; mlp.residual R,M,N";

struct Block {
  Model model = decoder(false);
  Cluster cluster = v100s(2);
  cost::CostContext context{model, cluster, training(), *find_engine("generic")};
};

TEST(BlockTrace, NamesEveryStepAndRunsShiftsBesideThem) {
  const Block b;
  const auto trace = block_trace(b.context, block_of(b.model), 8, 8, BlockPartition(kPrimitive));
  ASSERT_TRUE(trace.ok()) << trace.error().message();
  const auto events = nlohmann::json::parse(*trace)["traceEvents"];
  const auto find = [&](const char* name) {
    const auto at = std::find_if(events.begin(), events.end(), [&](const auto& e) { return e["name"] == name; });
    EXPECT_NE(at, events.end()) << name;
    return at == events.end() ? events.front() : *at;
  };
  const auto step = find("mlp.up forward 0"), shift = find("mlp.up forward 0 shift"), next = find("mlp.up forward 1");
  EXPECT_EQ(shift["ts"], step["ts"]);
  EXPECT_LT(shift["dur"], step["dur"]);  // the ring is hidden inside the node
  EXPECT_NEAR(next["ts"].get<double>(), step["ts"].get<double>() + step["dur"].get<double>(), 1e-6);
  find("mlp.down gradient 1 shift");
  find("attn.out all-reduce");
}

// Forward and backward follow each other, and the trace ends with both.
TEST(BlockTrace, LastsAsLongAsTheBlock) {
  const Block b;
  const auto trace = block_trace(b.context, block_of(b.model), 8, 8, BlockPartition(kPrimitive));
  const auto block = cost::partitioned_block(b.context, block_of(b.model), 8, 8, BlockPartition(kPrimitive));
  ASSERT_TRUE(trace.ok() && block.ok());
  double end_us = 0;
  const auto events = nlohmann::json::parse(*trace)["traceEvents"];
  for (const auto& e : events) end_us = std::max(end_us, e["ts"].get<double>() + e["dur"].get<double>());
  EXPECT_NEAR(end_us * 1e3, static_cast<double>(block->forward.duration_ns() + block->backward.duration_ns()), 0.01);
}

TEST(BlockTrace, RefusesAPartitionThatIsNotTheBlocks) {
  const Block b;
  EXPECT_FALSE(block_trace(b.context, block_of(b.model), 8, 8, BlockPartition("attn.norm R")).ok());
}

}  // namespace
}  // namespace espalier::sim
