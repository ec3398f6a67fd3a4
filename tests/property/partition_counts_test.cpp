// SPDX-License-Identifier: Apache-2.0
// Tests parameters, activations and messages of partitioned blocks: check/ counts them from the text,
// cost/ from tiles.
#include <gtest/gtest.h>

#include <random>

#include "check/partition_text.h"
#include "check/test_problem.h"
#include "cost/partitioned_block.h"
#include "partition/operator_splits.h"
#include "plan/engine.h"
#include "plan/operator_partition.h"

namespace espalier::check {
namespace {

using namespace test;

Strategy over(std::int32_t tp, std::string partition) {
  Strategy s;
  s.tp = tp;
  s.partition = BlockPartition(partition);
  return s;
}

View view_for(const Case& c) { return make_view(c.plan, c.model, c.cluster); }

/// Compares both counts of parameters, activations and messages for any legal sequence of every operator.
TEST(PartitionCounts, TheCheckerAndTheCostModelAgree) {
  std::mt19937 random(11);
  for (const char* engine : {"generic", "megatron-lm-2021"}) {
    for (int shape = 0; shape < 3; ++shape) {
      DecoderShape d = gpt(2);
      d.hidden = 256;
      d.ffn = 512;
      d.heads = 8;
      d.kv_heads = shape == 0 ? 8 : 2;
      d.gated = shape > 0;
      d.rotary = shape > 0;
      d.rms_norm = shape > 0;
      d.biases = shape == 0;
      d.dropout = shape < 2;
      const Model model = model_of(d);
      for (const int bits : {1, 2, 3, 4}) {
        const Strategy s = over(1 << bits, "");
        Case c = make_case(model, s, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1), engine);
        c.plan.only_pipeline().schedule.micro_batch = 4;
        c.plan.training.global_batch = 4;
        const cost::CostContext context(c.model, c.cluster, c.plan.training, *find_engine(engine));
        const LayerKind& kind = c.model.layer(1);
        const auto graph = block_graph(context.workload.training.sequence, *context.engine, kind, 4);
        ASSERT_TRUE(graph.ok());
        for (int round = 0; round < 40; ++round) {
          std::vector<OperatorPartition> all;
          for (int n = 1; n < graph->nodes(); ++n) {
            const auto& op = graph->operators[static_cast<std::size_t>(n)].shape;
            const auto space = partition::partition_space(op, bits);
            ASSERT_FALSE(space.empty());
            all.push_back({op.name, space[random() % space.size()]});
          }
          View view = view_for(c);
          view.strategy = over(1 << bits, to_string(all));
          const Finding finding = check_operator_partition(view);
          EXPECT_TRUE(finding.ok) << finding.text;
          const auto priced = cost::partitioned_block(context, kind, 4, 1 << bits, view.strategy.partition);
          ASSERT_TRUE(priced.ok()) << priced.error().message();
          EXPECT_EQ(partitioned_parameters(view, kind), priced->parameters) << view.strategy.partition.text();
          EXPECT_NEAR(partitioned_saved_bytes(view, kind, false), static_cast<double>(priced->saved), 16)
              << engine << " " << view.strategy.partition.text();
          EXPECT_EQ(partitioned_boundary_bytes(view, kind), priced->boundary_bytes) << view.strategy.partition.text();
        }
      }
    }
  }
}

}  // namespace
}  // namespace espalier::check
