// SPDX-License-Identifier: Apache-2.0
// What the search pays for: programs lowered beside configurations simulated.
#include "planner/simulated_evaluator.h"

#include <gtest/gtest.h>

#include <string>

#include "data/source_dir.h"
#include "espalier/planner.h"

namespace espalier {
namespace {

/// One stage, one micro-batch: forward 10, backward 20, optimizer 5.
cost::PlanTiming smallest() {
  cost::PlanTiming timing;
  timing.chunks.resize(1);
  timing.stages.resize(1);
  timing.chunks[0].forward.compute_ns = 10;
  timing.chunks[0].backward.compute_ns = 20;
  timing.stages[0].optimizer_ns = 5;
  return timing;
}

Lowering one_piece() {
  Lowering lowering;
  lowering.pieces = {1};
  return lowering;
}

TEST(SimulatedEvaluator, EqualTimingsAreLoweredOnce) {
  SimulatedEvaluator evaluator(2);
  cost::PlanTiming timing = smallest();
  EXPECT_EQ(evaluator.iteration_ns(one_piece(), timing, 0), 35);
  EXPECT_EQ(evaluator.iteration_ns(one_piece(), timing, 1), 35);
  timing.chunks[0].saved_bytes = 1000;  // memory and hidden communication decide no time
  timing.chunks[0].forward.hidden_ns = 7;
  EXPECT_EQ(evaluator.iteration_ns(one_piece(), timing, 0), 35);
  EXPECT_EQ(evaluator.lowered(), 1);
}

TEST(SimulatedEvaluator, EveryDurationCounts) {
  SimulatedEvaluator evaluator(1);
  const cost::PlanTiming timing = smallest();
  EXPECT_EQ(evaluator.iteration_ns(one_piece(), timing, 0), 35);
  std::int64_t programs = 1;
  const auto changed = [&](std::int64_t cost::ChunkTiming::*member, std::int64_t expected) {
    cost::PlanTiming other = timing;
    other.chunks[0].*member += 1;
    EXPECT_EQ(evaluator.iteration_ns(one_piece(), other, 0), expected);
    EXPECT_EQ(evaluator.lowered(), ++programs);
  };
  changed(&cost::ChunkTiming::send_forward_ns, 35);  // no message is sent, but the print does not know
  changed(&cost::ChunkTiming::grad_reduce_ns, 35);
  changed(&cost::ChunkTiming::param_gather_ns, 35);
  for (cost::PhaseTime cost::ChunkTiming::*phase : {&cost::ChunkTiming::forward, &cost::ChunkTiming::backward})
    for (std::int64_t cost::PhaseTime::*part :
         {&cost::PhaseTime::compute_ns, &cost::PhaseTime::exposed_ns, &cost::PhaseTime::other_ns}) {
      cost::PlanTiming other = timing;
      other.chunks[0].*phase.*part += 1;
      EXPECT_EQ(evaluator.iteration_ns(one_piece(), other, 0), 36);
      EXPECT_EQ(evaluator.lowered(), ++programs);
    }
  Lowering reduces = one_piece();
  reduces.reduce_gradients = true;
  cost::PlanTiming other = timing;
  other.chunks[0].grad_reduce_ns = 100;
  EXPECT_EQ(evaluator.iteration_ns(reduces, other, 0), 135);
}

/// Counters of the certificate on fixed jobs: no clock is asked, so they are the same on every machine.
TEST(SimulatedEvaluator, CountersOfFixedJobs) {
  struct Row {
    const char* job;
    std::int64_t simulated, lowered;
  };
  for (const Row& row :
       {Row{"llama3-8b-on-8xh100", 160, 59}, Row{"llama3-70b-on-64xh100", 47, 39}, Row{"mixtral-8x7b-on-32xa100", 653, 471}}) {
    const auto job = load_job_file(std::string(ESPALIER_SOURCE_DIR) + "/examples/" + row.job + ".yaml", {});
    ASSERT_TRUE(job.ok()) << job.error().message();
    PlannerOptions options;
    options.threads = 1;
    const auto result = plan(*job, options);
    ASSERT_TRUE(result.ok()) << result.error().message();
    EXPECT_EQ(result->search.simulated, row.simulated) << row.job;
    EXPECT_EQ(result->search.lowered, row.lowered) << row.job;
  }
}

}  // namespace
}  // namespace espalier
