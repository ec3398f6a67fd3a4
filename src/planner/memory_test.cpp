// SPDX-License-Identifier: Apache-2.0
// Tests that a call with the memory of an earlier one returns the same answer as one without. Results are
// byte-identical except for the counters of the search and runners-up.
#include "planner/memory.h"

#include <gtest/gtest.h>

#include "planner/test_jobs.h"

namespace espalier::planner {
namespace {

using planner::test::planned;

Job llama() {
  return planner::test::job("llama-3-8b", "{nodes: 2, devices_per_node: 8, device: h100-sxm-80gb}",
                            "{sequence_length: 4096, global_batch: 32, precision: bf16, optimizer: adam}");
}

Job slower(Job job, double factor) {
  for (FabricLevel& level : job.cluster.inter) level.bandwidth = BytesPerSecond(level.bandwidth.count() * factor);
  return job;
}

/// Removes what may differ: counters, runners-up, and sentences and hashes made of them.
PlannerResult comparable(PlannerResult r) {
  r.search.bounded = r.search.simulated = r.search.lowered = 0;
  r.search.pruned.clear();
  for (PhaseSummary& phase : r.search.phases)
    for (const SearchCounter counter : {SearchCounter::bounded, SearchCounter::lowered, SearchCounter::simulated})
      phase.counters.erase(counter);
  std::erase_if(r.alternatives, [](const Alternative& a) { return !a.baseline; });
  if (r.simplest) r.simplest->simulated = 0;
  return r;
}

TEST(PlannerMemory, AnswersAreThoseWithoutIt) {
  PlannerMemory memory;
  PlannerOptions warm;
  warm.threads = 1;
  PlannerOptions cold = warm;
  warm.memory = &memory;
  const Job nominal = llama();
  Job scarce = slower(nominal, 0.5);
  scarce.cluster.memory_limit = GiB(60);
  std::int64_t bounded_cold = 0, bounded_warm = 0;
  planned(nominal, warm);
  for (const Job& job : {slower(nominal, 0.5), slower(nominal, 0.7), slower(nominal, 1.2), nominal, scarce}) {
    const PlannerResult expected = planned(job, cold), got = planned(job, warm);
    EXPECT_TRUE(got.search.optimal);
    EXPECT_EQ(to_json(comparable(got), false), to_json(comparable(expected), false));
    bounded_cold += expected.search.bounded;
    bounded_warm += got.search.bounded;
  }
  EXPECT_LT(bounded_warm, bounded_cold * 3 / 4);
}

TEST(PlannerMemory, KeepsEightSearchesOfAJobAndCanForget) {
  PlannerMemory memory;
  PlannerOptions options;
  options.threads = 1;
  options.memory = &memory;
  for (int i = 0; i < 10; ++i) planned(slower(llama(), 1.0 - 0.05 * i), options);
  const auto of_job = [&] {
    std::ptrdiff_t n = 0;
    for (const auto& known : memory.content().searches) n += known.job.engine == "generic";
    return n;
  };
  EXPECT_EQ(of_job(), 8);
  planned(slower(llama(), 0.55), options);  // the latest cluster again
  EXPECT_EQ(of_job(), 8);
  PlannerMemory moved = std::move(memory);
  EXPECT_GE(moved.size(), 8U);
  moved.clear();
  EXPECT_EQ(moved.size(), 0U);
}

// A record covers what fits under its limit. It does not serve a higher limit, another job or another number of nodes.
TEST(PlannerMemory, ServesOnlyWhatItIsTrueOf) {
  PlannerMemory memory;
  PlannerOptions options;
  options.threads = 1;
  options.memory = &memory;
  Job job = llama();
  job.cluster.memory_limit = GiB(60);
  planned(job, options);
  Job room = memory.content().searches.back().job;
  for (const auto& known : memory.content().searches)
    if (known.job.engine == "generic") room = known.job;
  EXPECT_TRUE(carried_for(&memory, room).has_value());
  EXPECT_FALSE(carried_for(nullptr, room).has_value());
  Job more = room;
  more.cluster.memory_limit = Bytes(room.cluster.memory_limit->count() + 1);
  EXPECT_FALSE(carried_for(&memory, more).has_value());
  Job less = room;
  less.cluster.memory_limit = Bytes(room.cluster.memory_limit->count() - 1);
  EXPECT_TRUE(carried_for(&memory, less).has_value());
  Job other = room;
  other.training.global_batch *= 2;
  EXPECT_FALSE(carried_for(&memory, other).has_value());
  Job fewer = room;  // fewer nodes: only good starts remain
  fewer.cluster.groups.front().nodes = 1;
  EXPECT_FALSE(carried_for(&memory, fewer).has_value());
  const auto seeds = seeds_for(&memory, fewer);
  ASSERT_FALSE(seeds.empty());
  for (const search::Configuration& c : seeds) {
    EXPECT_EQ(c.strategy.tp * c.strategy.cp * c.strategy.dp * c.schedule.stages, 8);
    EXPECT_EQ(c.strategy.dp * c.schedule.micro_batch * c.schedule.microbatches, 32);
  }
  EXPECT_TRUE(seeds_for(&memory, other).empty());
}

// With one node less and a higher memory limit, only starts are carried over.
TEST(PlannerMemory, StartsFromWhatWasBestOnOtherNodes) {
  PlannerMemory memory;
  PlannerOptions warm;
  warm.threads = 1;
  PlannerOptions cold = warm;
  warm.memory = &memory;
  Job job = llama();
  job.cluster.memory_limit = GiB(60);
  planned(job, warm);
  Job node = llama();
  node.cluster.groups.front().nodes = 1;
  node.cluster.inter.clear();
  for (const Job& now : {node, llama()}) {
    const PlannerResult expected = planned(now, cold), got = planned(now, warm);
    EXPECT_EQ(to_json(comparable(got), false), to_json(comparable(expected), false));
    EXPECT_LE(got.search.simulated, expected.search.simulated);
  }
}

// Under a limit of simulated plans the answer depends on the order of work, which a record would change.
TEST(PlannerMemory, IsLeftAloneUnderANodeLimit) {
  PlannerMemory memory;
  PlannerOptions options;
  options.threads = 1;
  options.node_limit = 20;
  const PlannerResult expected = planned(llama(), options);
  options.memory = &memory;
  EXPECT_EQ(to_json(planned(llama(), options), false), to_json(expected, false));
  EXPECT_EQ(memory.size(), 0U);
}

}  // namespace
}  // namespace espalier::planner
