// SPDX-License-Identifier: Apache-2.0
// Tests random small clusters of two and three kinds of device, in one place or two, with slow devices, odd node
// counts and little memory. The search finds the best of all chains of stages and states that nothing is faster. The
// number of threads does not change a byte of an answer.
#include <chrono>
#include <cstdio>
#include <functional>

#include "espalier/planner.h"
#include "mixed_clusters.h"
#include "random_mixed.h"

namespace espalier::property::mixed_clusters_test {
namespace {

using namespace mixed;  // NOLINT: cases on unlike devices
using search::GroupedCandidate;

/// Counts clusters visited, those on which a plan fits, and among these those whose answer is proven.
struct Compared {
  int clusters = 0, with_answer = 0, closed = 0;
  std::int64_t simulated = 0, plans = 0;
};

/// Describes a family of cases: its batches, the searched part of the space, and a callback for each answer.
struct Family {
  std::vector<std::int64_t> batches;
  std::function<void(SearchSpace&)> space = [](SearchSpace&) {};
  std::function<void(Case&, const GroupedCandidate&)> look = [](Case&, const GroupedCandidate&) {};
};

search::GroupedOutcome found_on(const Case& c) {
  planner::SimulatedEvaluator evaluator(1);
  return search::device_groups(c.problem, evaluator, {});
}

/// Checks on each cluster that the search returns the best of all chains, or none exists; no chain is
/// below its bound.
Compared with_all_chains(std::uint64_t seed, int clusters, const Family& family) {
  Random random(seed);
  Compared out{clusters};
  for (int n = 0; n < clusters; ++n) {
    const std::string text = random_cluster(random);
    Case c(uneven_model(random), text, random.of(family.batches));
    narrow(random, c.problem.space);
    family.space(c.problem.space);
    const search::GroupedOutcome outcome = found_on(c);
    Exhaustive all(c);
    const std::int64_t best = all.best();
    out.plans += all.plans();
    out.simulated += outcome.simulations;
    EXPECT_EQ(outcome.best.has_value(), best < INT64_MAX) << n << ": " << text;
    if (!outcome.best) continue;
    ++out.with_answer;
    out.closed += outcome.lower_bound_ns == outcome.best->iteration_ns ? 1 : 0;
    EXPECT_LE(outcome.lower_bound_ns, best) << n << ": " << text;
    EXPECT_EQ(outcome.best->iteration_ns, best) << n << ": " << text;
    family.look(c, *outcome.best);
  }
  std::printf("%d clusters, %d with a plan that fits, %d proven best; %lld of %lld plans simulated\n", clusters, out.with_answer,
              out.closed, static_cast<long long>(out.simulated), static_cast<long long>(out.plans));
  return out;
}

TEST(MixedClusters, TheSearchFindsTheBestOfAllChains) {
  const Compared all = with_all_chains(1212, cases(40, 500), {{4, 6, 8}});
  EXPECT_GE(all.with_answer * 10, all.clusters * 7);
  EXPECT_EQ(all.closed, all.with_answer);
}

/// If every device must have work, the answer is the best of the chains that leave none out. It is sometimes slower
/// than the best of all.
TEST(MixedClusters, EveryDeviceHasWorkWhereItMust) {
  int dearer = 0;
  Family family{{4, 6, 8}};
  family.space = [](SearchSpace& space) { space.devices = DeviceChoice::all; };
  family.look = [&](Case& c, const GroupedCandidate& best) {
    c.problem.space.devices = DeviceChoice::any;
    dearer += found_on(c).best->iteration_ns < best.iteration_ns ? 1 : 0;
  };
  const Compared all = with_all_chains(1313, cases(30, 300), family);
  std::printf("%d of them slower than without some device\n", dearer);
  EXPECT_GE(all.with_answer * 10, all.clusters * 4);
  EXPECT_EQ(all.closed, all.with_answer);
  EXPECT_GE(dearer, 1);
}

/// Compares stages that split sequences, each in its own way, with stages that do not.
TEST(MixedClusters, StagesSplitSequencesEachItsOwnWay) {
  int split = 0;
  Family family{{1, 2, 4}};
  family.space = [](SearchSpace& space) { space.allow(Dimension::cp, {1, 2}); };
  family.look = [&](const Case&, const GroupedCandidate& best) {
    const std::vector<Stage>& stages = best.pipelines.front().stages;
    split +=
        std::any_of(stages.begin(), stages.end(), [](const Stage& s) { return s.chunks.front().ranges.front().strategy.cp > 1; });
  };
  const Compared all = with_all_chains(1414, cases(16, 150), family);
  std::printf("%d of them with sequences split\n", split);
  EXPECT_GE(all.with_answer * 10, all.clusters * 6);
  EXPECT_EQ(all.closed, all.with_answer);
  EXPECT_GE(split, 2);
}

/// If ZB-H1 is named, every chain under it is also included. The search finds the best of all, and reports a proof
/// if it visited all. Without sharded states, stages have no replicas. Chains then grow long and have the bubbles
/// that ZB-H1 fills.
TEST(MixedClusters, ChainsRunZeroBubbleWhereItIsNamed) {
  int zero_bubble = 0;
  Family family{{4, 6, 8}};
  family.space = [](SearchSpace& space) {
    space.allow(Dimension::schedule, {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1});
    if (space.allowed[Dimension::zero] == std::vector<std::int64_t>{0}) space.allow(Dimension::dp, {1});
  };
  family.look = [&](const Case&, const GroupedCandidate& best) {
    zero_bubble += best.pipelines.front().schedule.kind == ScheduleKind::zb_h1 ? 1 : 0;
  };
  const Compared all = with_all_chains(1515, cases(30, 300), family);
  std::printf("%d of them zero-bubble\n", zero_bubble);
  EXPECT_GE(all.with_answer * 10, all.clusters * 7);
  EXPECT_GE(zero_bubble * 8, all.with_answer);
  EXPECT_GE(all.closed * 10, all.with_answer * 9);
}

/// Returns the answer of a search on unlike devices, without wall-clock values.
std::string answer(const Case& c, int threads) {
  Job job;
  job.model = c.model;
  job.cluster = c.cluster;
  job.training = c.problem.training;
  PlannerOptions how;
  how.threads = threads;
  const auto result = plan(job, how);
  return result.ok() ? to_json(*result, false) : result.error().message();
}

TEST(MixedClusters, ThreadsChangeNoByte) {
  Random random(77);
  double one = 0, two = 0;
  int answers = 0;
  for (int n = 0; n < cases(4, 40); ++n) {
    const Case c(uneven_model(random), random_cluster(random), 8);
    const auto timed = [&](int threads, double& seconds) {
      const auto begin = std::chrono::steady_clock::now();
      const std::string text = answer(c, threads);
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      return text;
    };
    double others = 0;
    const std::string expected = timed(1, one);
    answers += expected.find("iteration_s") != std::string::npos ? 1 : 0;
    ASSERT_EQ(timed(2, two), expected) << n;
    for (const int threads : {4, 8}) ASSERT_EQ(timed(threads, others), expected) << n << ", " << threads << " threads";
  }
  EXPECT_GE(answers, 1);
  std::printf("%d answers; %.2f s with one thread, %.2f s with two\n", answers, one, two);
}

}  // namespace
}  // namespace espalier::property::mixed_clusters_test
