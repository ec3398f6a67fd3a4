// SPDX-License-Identifier: Apache-2.0
// Tests the bound from a simulated pipeline. The test in tests/property/group_bounds_test.cpp checks that it never
// exceeds a simulated time.
#include "search/pipeline_floor.h"

#include <gtest/gtest.h>

namespace espalier::search::pipeline_floor_test {
namespace {

/// Returns fixed ends of the last passes of one pipeline, and keeps the structures and costs it was given.
class Pipeline : public Evaluator {
 public:
  explicit Pipeline(std::vector<std::int64_t> ends) : ends_(std::move(ends)) {}
  std::int64_t peak_bytes(const ProgramStructure&, const cost::Costs&, int) override { return 0; }
  std::int64_t iteration_ns(const ProgramStructure&, const cost::Costs&, const CandidatePlan&, int) override { return 0; }
  const std::vector<std::int64_t>* pass_ends(const ProgramStructure& structure, const cost::Costs& costs, int) override {
    asked_structure = structure;
    asked_costs = costs;
    return ends_.empty() ? nullptr : &ends_;
  }
  ProgramStructure asked_structure;
  cost::Costs asked_costs;

 private:
  std::vector<std::int64_t> ends_;
};

/// Builds two stages with one micro-batch: forward 10, backward 20, message 3. ZeRO-1 overlaps its gather, two
/// buckets of 4 ns, with the first forward pass. It reduces after the last backward pass in two buckets of 7 ns; the
/// updates take 5 and 1 ns.
Workspace two_stages() {
  Workspace w;
  ProgramStructure& s = w.structure;
  s.schedule.stages = 2;
  s.buckets = {2, 2};
  s.reduce_gradients = s.gather_parameters = s.overlap_gather = true;
  w.costs.reset(s);
  for (std::int32_t c = 0; c < 2; ++c) {
    w.costs.works[s.forward(ChunkId(c))].time = {6, 3, 1, 0};
    w.costs.works[s.backward(ChunkId(c))].time = {20, 0, 0, 0};
    w.costs.collectives[s.grad_reduce(ChunkId(c))] = Nanoseconds(7);
    w.costs.collectives[s.param_gather(ChunkId(c))] = Nanoseconds(4);
  }
  w.costs.works[s.optimizer(StageId(0))].time.compute_ns = 5;
  w.costs.works[s.optimizer(StageId(1))].time.compute_ns = 1;
  w.costs.transfers[s.transfer(ChunkId(1), false)] = Nanoseconds(3);
  w.costs.transfers[s.transfer(ChunkId(1), true)] = Nanoseconds(3);
  return w;
}

// The pipeline is F₀ 0–10, message –13, F₁ 13–23, B₁ 23–43, message –46, B₀ 46–66. Stage 0 then reduces 2·7 and
// updates in 5: 85; stage 1 ends at 43 + 14 + 1 = 58. Nothing starts before the first bucket is gathered: 85 + 4.
TEST(PipelineFloor, SmallestExample) {
  Workspace w = two_stages();
  Pipeline evaluator({66, 43});
  EXPECT_EQ(pipeline_floor_ns(evaluator, w, 0), 89);
}

TEST(PipelineFloor, APipelineIsPassesAndMessagesAlone) {
  Workspace w = two_stages();
  Pipeline evaluator({66, 43});
  pipeline_floor_ns(evaluator, w, 0);
  const ProgramStructure& s = evaluator.asked_structure;
  EXPECT_EQ(s.schedule, w.structure.schedule);
  EXPECT_EQ(s.collectives(), 0);
  EXPECT_TRUE(s.overlap_p2p);
  EXPECT_TRUE(evaluator.asked_costs.fits(s));
  EXPECT_EQ(evaluator.asked_costs.works[s.forward(ChunkId(1))].time.duration_ns(), 10);
  EXPECT_EQ(evaluator.asked_costs.works[s.optimizer(StageId(0))].time.duration_ns(), 0);
  EXPECT_EQ(evaluator.asked_costs.transfers, w.costs.transfers);
}

// The configuration itself takes 89 or more. So stage 0 ends its last pass by 89 − 4 − 19, stage 1 by 89 − 4 − 15.
// These ends give 89 again. Under reductions of 1 ns per bucket they give at most 4 + max(66 + 7, 70 + 3) = 77.
TEST(PipelineFloor, ASimulatedConfigurationSaysWhatABoundCanBe) {
  Workspace w = two_stages();
  const std::vector<std::int64_t> latest = latest_pass_ends(w, 89);
  EXPECT_EQ(latest, (std::vector<std::int64_t>{66, 70}));
  EXPECT_EQ(floor_of_ends(w, latest), 89);
  for (std::int32_t c = 0; c < 2; ++c) w.costs.collectives[w.structure.grad_reduce(ChunkId(c))] = Nanoseconds(1);
  EXPECT_EQ(floor_of_ends(w, latest), 77);
}

TEST(PipelineFloor, AnEvaluatorWithoutPipelinesBoundsNothing) {
  Workspace w = two_stages();
  Pipeline evaluator({});
  EXPECT_EQ(pipeline_floor_ns(evaluator, w, 0), 0);
}

TEST(PipelineFloor, ShardGroupsAndOverlapsShareAPipelineBelowZero2) {
  Configuration a, b;
  a.strategy.dp = b.strategy.dp = 8;
  a.strategy.zero = b.strategy.zero = ZeroStage::optimizer;
  a.strategy.shard = 8;
  b.strategy.shard = 2;
  b.strategy.overlap.grad_reduce = b.strategy.overlap.p2p = true;
  EXPECT_EQ(pipeline_of(a), pipeline_of(b));
  EXPECT_EQ(schedule_choice_of(a), schedule_choice_of(b));
  b.strategy.recompute.kind = RecomputeKind::selective;
  EXPECT_FALSE(pipeline_of(a) == pipeline_of(b));
  EXPECT_EQ(schedule_choice_of(a), schedule_choice_of(b));
  a.strategy.recompute = b.strategy.recompute;
  a.strategy.zero = b.strategy.zero = ZeroStage::parameters;  // parameters are gathered inside passes
  EXPECT_FALSE(pipeline_of(a) == pipeline_of(b));
}

}  // namespace
}  // namespace espalier::search::pipeline_floor_test
