// SPDX-License-Identifier: Apache-2.0
// Tests plans of random problems under the flow-level network. They are never faster than the closed form. They are
// equal to the nanosecond where only consecutive messages of one rank are in flight.
#include <gtest/gtest.h>

#include "cluster/topology_builders.h"
#include "cost/rank_contexts.h"
#include "plan/engine.h"
#include "random_layered.h"
#include "random_problem.h"
#include "sim/flow_executor.h"
#include "sim/program_traffic.h"
#include "sim/topology_network.h"

namespace espalier::property::flow_program_test {
namespace {

const int kProblems = cases(100, 1000);

struct Both {
  std::int64_t closed_ns = 0, flow_ns = 0;
  double bytes = 0;  ///< on all links
};

template <class Problem>
Both run_both(const Problem& p, const Plan& plan) {
  const cost::ClusterCosts costs_of(p.model, p.cluster, p.training, *p.engine);
  Program program;
  const cost::Costs costs = cost::price(costs_of, plan, program);
  const cost::RankContexts contexts = cost::rank_contexts(costs_of, plan, program);
  const cluster::Topology topology = cluster::nested_topology(p.cluster);
  sim::FlowExecutor flow(sim::flow_network(topology), sim::traffic_of(contexts, plan, program, costs, topology));
  sim::Engine closed;
  EXPECT_TRUE(closed.run(program, costs, false));
  EXPECT_TRUE(flow.run(program, costs, true));
  Both both{closed.iteration_ns(), flow.iteration_ns()};
  for (std::int64_t i = 0; i < topology.links(); ++i)
    both.bytes += flow.network().utilisation(static_cast<cluster::LinkId>(i)).bytes;
  return both;
}

/// Selects one stage whose collectives, at either end of the step and inside chunks, run one after the other.
bool one_at_a_time(const Strategy& s, const Schedule& schedule) {
  return schedule.stages == 1 && !s.shards_gradients() && !s.overlap.grad_reduce && !s.overlap.param_gather && !s.overlap.tp &&
         s.cp == 1;
}

TEST(FlowPrograms, AreNeverFasterThanTheClosedFormAndEqualWhereNothingIsShared) {
  int equal = 0, moving = 0;
  for (int i = 0; i < kProblems; ++i) {
    const RandomProblem p = random_problem(i);
    const search::Space space(p.model, p.cluster, p.training, *p.engine, p.space);
    std::vector<Configuration> nodes;
    space.layer_group([&](const Configuration& c) { nodes.push_back(c); });
    Random random(static_cast<std::uint64_t>(i));
    for (int round = 0; round < 6; ++round) {
      bool found = false;
      const Configuration c = random_below(space, random.of(nodes), random, found);
      if (!found) continue;
      const Both both =
          run_both(p, make_uniform_plan(p.model, p.cluster, p.training, p.engine->name, c.strategy, c.schedule, p.engine->split));
      EXPECT_GE(both.flow_ns, both.closed_ns) << i;
      moving += both.bytes > 0 ? 1 : 0;
      if (!one_at_a_time(c.strategy, c.schedule)) continue;
      EXPECT_EQ(both.flow_ns, both.closed_ns) << i;
      equal += both.bytes > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(moving, 100);
  EXPECT_GT(equal, 20);
}

TEST(FlowPrograms, TakeLayerWisePlansToo) {
  int ran = 0;
  for (int i = 0; i < kProblems / 4; ++i) {
    LayeredMaker maker(static_cast<std::uint64_t>(i));
    LayeredProblem p;
    if (!maker.problem(p)) continue;
    const Plan plan = maker.plan(p).document;
    const Both both = run_both(p, plan);
    EXPECT_GE(both.flow_ns, both.closed_ns) << i;
    ++ran;
  }
  EXPECT_GT(ran, 10);
}

}  // namespace
}  // namespace espalier::property::flow_program_test
