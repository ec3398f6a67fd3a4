// SPDX-License-Identifier: Apache-2.0
// Tests the work of the search: programs lowered compared with configurations simulated.
#include "planner/simulated_evaluator.h"

#include <gtest/gtest.h>

#include <string>

#include "cost/by_chunk.h"
#include "data/source_dir.h"
#include "espalier/planner.h"

namespace espalier::planner {
namespace {

/// Returns one stage with one micro-batch: forward 10, backward 20, optimizer 5.
cost::test::ByChunk smallest() {
  cost::test::ByChunk timing = cost::test::empty_rows({});
  timing.chunks[0].forward.compute_ns = 10;
  timing.chunks[0].backward.compute_ns = 20;
  timing.stages[0].optimizer_ns = 5;
  return timing;
}

ProgramStructure one_bucket() {
  ProgramStructure structure;
  structure.buckets = {1};
  return structure;
}

TEST(SimulatedEvaluator, EqualTimingsAreLoweredOnce) {
  SimulatedEvaluator evaluator(2);
  cost::test::ByChunk timing = smallest();
  EXPECT_EQ(evaluator.iteration_ns(one_bucket(), costs_of(timing, one_bucket()), 0), 35);
  EXPECT_EQ(evaluator.iteration_ns(one_bucket(), costs_of(timing, one_bucket()), 1), 35);
  timing.chunks[0].saved_bytes = 1000;  // memory and hidden communication do not change the time
  timing.chunks[0].forward.hidden_ns = 7;
  EXPECT_EQ(evaluator.iteration_ns(one_bucket(), costs_of(timing, one_bucket()), 0), 35);
  EXPECT_EQ(evaluator.lowered(), 1);
}

TEST(SimulatedEvaluator, EveryDurationCounts) {
  SimulatedEvaluator evaluator(1);
  const cost::test::ByChunk timing = smallest();
  EXPECT_EQ(evaluator.iteration_ns(one_bucket(), costs_of(timing, one_bucket()), 0), 35);
  std::int64_t programs = 1;
  for (cost::PhaseTime cost::test::ChunkRow::*phase : {&cost::test::ChunkRow::forward, &cost::test::ChunkRow::backward})
    for (std::int64_t cost::PhaseTime::*part :
         {&cost::PhaseTime::compute_ns, &cost::PhaseTime::exposed_ns, &cost::PhaseTime::other_ns}) {
      cost::test::ByChunk other = timing;
      other.chunks[0].*phase.*part += 1;
      EXPECT_EQ(evaluator.iteration_ns(one_bucket(), costs_of(other, one_bucket()), 0), 36);
      EXPECT_EQ(evaluator.lowered(), ++programs);
    }
  ProgramStructure reduces = one_bucket();
  reduces.reduce_gradients = true;
  cost::test::ByChunk other = timing;
  other.chunks[0].grad_reduce_ns = 100;
  EXPECT_EQ(evaluator.iteration_ns(reduces, costs_of(other, reduces), 0), 135);
}

/// The counters of the certificate on fixed jobs depend on no clock, so they are the same on every machine.
TEST(SimulatedEvaluator, CountersOfFixedJobs) {
  struct Row {
    const char* job;
    std::int64_t simulated, lowered;
  };
  for (const Row& row :
       {Row{"llama3-8b-on-8xh100", 32, 22}, Row{"llama3-70b-on-64xh100", 14, 23}, Row{"mixtral-8x7b-on-32xa100", 50, 65}}) {
    const auto job = load_job_file(std::string(ESPALIER_SOURCE_DIR) + "/examples/" + row.job + ".yaml", {"engine=generic"});
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
}  // namespace espalier::planner
