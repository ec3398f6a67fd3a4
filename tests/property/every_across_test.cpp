// SPDX-License-Identifier: Apache-2.0
// Tests uniform plans across node groups on random small clusters. The search finds the best of all parts of the
// cluster, orders of its groups and configurations, and its bound is not above any of them. More nodes, another order
// of the groups and faster links never make an answer slower.
#include <cstdio>
#include <memory>

#include "mixed_clusters.h"
#include "random_mixed.h"
#include "search/across_prices.h"
#include "search/whole_cluster.h"

namespace espalier::property::every_across_test {
namespace {

using namespace mixed;  // NOLINT: cases on unlike devices

/// Simulates every uniform plan across groups.
class EveryAcross {
 public:
  explicit EveryAcross(const Case& c) : case_(c), costs_(c.model, c.cluster, c.problem.training, *c.problem.engine) { extend(0); }
  std::int64_t best_ns = INT64_MAX;
  std::int64_t plans = 0;

 private:
  void extend(std::size_t g) {
    if (g == case_.cluster.groups.size()) {
      if (nodes_.size() > 1) permute();
      return;
    }
    extend(g + 1);
    for (std::int64_t n = 1; n <= case_.cluster.groups[g].nodes; ++n) {
      nodes_.push_back({g, n});
      extend(g + 1);
      nodes_.pop_back();
    }
  }
  void permute() {
    search::NodeSet nodes = nodes_;
    const auto by_group = [](const search::GroupPart& a, const search::GroupPart& b) { return a.group < b.group; };
    std::sort(nodes.begin(), nodes.end(), by_group);
    do judge(nodes);
    while (std::next_permutation(nodes.begin(), nodes.end(), by_group));
  }
  void judge(const search::NodeSet& nodes) {
    const Cluster own = search::cluster_of(case_.cluster, nodes);
    const std::vector<std::int64_t> devices = search::devices_of(case_.cluster, nodes);
    const search::Space space(case_.model, own, case_.problem.training, *case_.problem.engine, case_.problem.space);
    space.for_each([&](const search::Configuration& c) {
      const Plan plan = search::plan_across(case_.problem, own, devices, c);
      ++plans;
      const auto found = evaluator_.evaluate(case_.problem, costs_, plan);
      if (found->fits) best_ns = std::min(best_ns, found->iteration_ns);
    });
  }

  const Case& case_;
  const cost::ClusterCosts costs_;
  planner::SimulatedEvaluator evaluator_{1};
  search::NodeSet nodes_;
};

std::unique_ptr<Case> case_on(Random& random, const std::string& text) {
  auto c = std::make_unique<Case>(uneven_model(random), text, random.of<std::int64_t>({4, 6, 8}));
  narrow(random, c->problem.space);
  return c;
}

TEST(EveryAcross, TheSearchFindsTheBestOfAllPartsAndOrders) {
  Random random(2626);
  const int clusters = cases(12, 200);
  int with_answer = 0, closed = 0;
  long long simulated = 0, plans = 0;
  for (int n = 0; n < clusters; ++n) {
    const std::string text = random_cluster(random, false);
    const std::unique_ptr<Case> made = case_on(random, text);
    const Case& c = *made;
    planner::SimulatedEvaluator evaluator(1);
    const search::PhaseOutcome found = search::whole_cluster(c.problem, evaluator, 0, {});
    const EveryAcross all(c);
    plans += all.plans;
    simulated += found.simulations;
    EXPECT_LE(found.lower_bound_ns, all.best_ns) << n << ": " << text;
    if (!found.best) {
      EXPECT_TRUE(all.best_ns == INT64_MAX || found.lower_bound_ns < INT64_MAX) << n << ": " << text;
      continue;
    }
    ++with_answer;
    EXPECT_GE(found.best->iteration_ns, all.best_ns) << n << ": " << text;
    if (found.lower_bound_ns != found.best->iteration_ns) continue;
    ++closed;
    EXPECT_EQ(found.best->iteration_ns, all.best_ns) << n << ": " << text;
  }
  std::printf("%d clusters, %d with a plan that fits, %d proven best; %lld of %lld plans simulated\n", clusters, with_answer,
              closed, simulated, plans);
  EXPECT_GE(with_answer * 10, clusters * 5);
  EXPECT_GE(closed * 2, with_answer);  // the rest has more plans than the phase prices
}

// Plans with sets of recomputed modules have prices of their own, so that a larger space never has a slower answer.
TEST(EveryAcross, SetsOfModulesTakeNoPricesOfOtherPlans) {
  const std::string text = cat("{groups: [", group(2, 8, device("fast", 300, 24)), ", ", group(2, 8, device("slow", 150, 16)),
                               "], inter_group: {bandwidth: 100Gb/s, latency: 5us}}");
  const auto best_ns = [&](bool sets) {
    Case c(16, text, 256);
    c.problem.training.sequence.main = 2048;
    if (sets)
      c.problem.space.allow(Dimension::recompute,
                            {RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full, kModuleSets});
    planner::SimulatedEvaluator evaluator(1);
    const search::PhaseOutcome found = search::whole_cluster(c.problem, evaluator, 0, {});
    std::printf("%s: %lld ns of %lld plans, none below %lld ns\n", sets ? "with sets of modules" : "without",
                static_cast<long long>(found.best ? found.best->iteration_ns : 0), static_cast<long long>(found.simulations),
                static_cast<long long>(found.lower_bound_ns));
    return found.best ? found.best->iteration_ns : INT64_MAX;
  };
  EXPECT_LE(best_ns(true), best_ns(false));
}

}  // namespace
}  // namespace espalier::property::every_across_test
