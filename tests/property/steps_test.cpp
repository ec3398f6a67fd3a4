// SPDX-License-Identifier: Apache-2.0
// Tests steps against sums. For every strategy, the steps of a layer add up to the cost that the search uses, and the
// steps of a pass to the simulated one. They agree component by component and to the nanosecond. No track shows two
// things at once.
#include <gtest/gtest.h>

#include <map>

#include "cost/chunk_steps.h"
#include "cost/layer_steps.h"
#include "cost/plan_testing.h"
#include "plan/engine.h"
#include "random_layered.h"
#include "random_problem.h"

namespace espalier::property::steps_test {
namespace {

const int kProblems = cases(240, 2000);

/// Checks the sum of one phase, and a layout in time that ends with it.
void expect_phase(const cost::PhaseSteps& phase, const cost::PhaseTime& cost) {
  EXPECT_EQ(cost::phase_time(phase), cost);
  std::int64_t end = 0;
  for (const cost::StepSpan& span : cost::step_spans(phase)) {
    EXPECT_LE(span.compute_start_ns, span.compute_end_ns);
    EXPECT_LE(span.traffic_start_ns, span.traffic_end_ns);
    end = std::max({end, span.compute_end_ns, span.traffic_end_ns});
  }
  EXPECT_LE(end, cost.compute_ns + cost.exposed_ns);
  if (phase.network_wait_s == 0) {
    EXPECT_EQ(end, cost.compute_ns + cost.exposed_ns);
  }
  for (const Step& step : phase.steps)
    if (step.placement == Placement::beside && step.moves()) {
      ASSERT_TRUE(step.beside());
      ASSERT_LE(step.first, step.last);
      ASSERT_LT(step.last, static_cast<std::int32_t>(phase.steps.size()));
    }
}

TEST(Steps, OfALayerAddUpToItsCost) {
  std::map<CollectiveKind, int> seen;
  int beside = 0;
  for (int i = 0; i < kProblems; ++i) {
    const RandomProblem p = random_problem(i);
    const search::Space space(p.model, p.cluster, p.training, *p.engine, p.space);
    const cost::CostContext context(p.model, p.cluster, p.training, *p.engine);
    std::vector<Configuration> nodes;
    space.layer_group([&](const Configuration& c) { nodes.push_back(c); });
    Random random(static_cast<std::uint64_t>(i));
    for (int round = 0; round < 4; ++round) {
      Configuration c = random.of(nodes);
      RecomputeModules::all().each([&](RecomputeModule module) {
        if (random.one_in(3)) c.strategy.recompute.modules.add(module);
      });
      std::vector<cost::LayerCost> costs;
      cost::layer_costs(context, c.strategy, c.schedule.stages, c.schedule.micro_batch, costs);
      for (std::size_t k = 0; k < costs.size(); ++k) {
        const auto steps =
            cost::layer_steps(context, c.strategy, c.schedule.stages, c.schedule.micro_batch, static_cast<std::int32_t>(k));
        expect_phase(steps.forward, costs[k].forward);
        expect_phase(steps.backward, costs[k].backward);
        expect_phase(steps.backward_input, costs[k].backward_input);
        expect_phase(steps.backward_weight, costs[k].backward_weight);
        expect_phase(steps.recompute_selective, costs[k].recompute_selective);
        for (const Step& step : steps.backward.steps) {
          if (step.moves()) ++seen[step.traffic.kind];
          beside += step.beside() ? 1 : 0;
        }
      }
    }
  }
  for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                          CollectiveKind::all_to_all, CollectiveKind::ring_shift})
    EXPECT_GT(seen[kind], 10) << to_string(kind);
  EXPECT_GT(beside, 100);
}

/// Checks every chunk and phase of a plan against its timing.
void expect_chunks(const cost::CostContext& context, const Plan& plan, std::map<std::string, int>& seen) {
  Program program = lower(plan, *context.workload.model, true);
  const cost::Costs costs = cost::price(context, plan, program);
  const ProgramStructure& structure = program.structure();
  const cost::PlanChunks chunks = cost::chunks_of(plan, *context.workload.model);
  cost::StepBook book(context, chunks);
  const bool split = splits_backward(plan.only_pipeline().schedule.kind);
  for (std::int32_t c = 0; c < structure.chunks(); ++c) {
    const auto time_of = [&](WorkId work) { return costs.works[work].time; };
    std::vector<std::pair<cost::ChunkPhase, cost::PhaseTime>> phases = {
        {cost::ChunkPhase::forward, time_of(structure.forward(ChunkId(c)))}};
    phases.emplace_back(split ? cost::ChunkPhase::backward_input : cost::ChunkPhase::backward,
                        time_of(structure.backward(ChunkId(c))));
    if (split) phases.emplace_back(cost::ChunkPhase::backward_weight, time_of(structure.backward_weight(ChunkId(c))));
    for (const auto& [phase, time] : phases) {
      const cost::ChunkSteps steps = book.chunk(c, phase);
      ASSERT_EQ(steps.whole, time) << plan.label() << " chunk " << c << " phase " << static_cast<int>(phase);
      std::map<cost::StepTrack, std::int64_t> free;
      for (const cost::ChunkSpan& span : steps.spans) {
        EXPECT_GE(span.start_ns, free[span.track]) << span.name;
        EXPECT_LE(span.end_ns, time.duration_ns()) << span.name;
        free[span.track] = span.end_ns;
        if (span.traffic.times > 0) ++seen[std::string(to_string(span.traffic.group))];
      }
    }
  }
}

TEST(Steps, OfAPassAddUpToItsTiming) {
  std::map<std::string, int> seen;
  for (int i = 0; i < kProblems; ++i) {
    LayeredMaker maker(static_cast<std::uint64_t>(i));
    LayeredProblem p;
    if (!maker.problem(p)) continue;
    const cost::CostContext context(p.model, p.cluster, p.training, *p.engine);
    for (int round = 0; round < 4; ++round) expect_chunks(context, maker.plan(p).document, seen);
  }
  for (const GroupKind group : {GroupKind::tensor, GroupKind::context, GroupKind::expert, GroupKind::data_shard,
                                GroupKind::expert_shard, GroupKind::stage})
    EXPECT_GT(seen[std::string(to_string(group))], 10) << to_string(group);
}

TEST(Steps, OfAPassOfAUniformPlanAddUpToItsTiming) {
  std::map<std::string, int> seen;
  for (int i = 0; i < kProblems; ++i) {
    const RandomProblem p = random_problem(i);
    const search::Space space(p.model, p.cluster, p.training, *p.engine, p.space);
    const cost::CostContext context(p.model, p.cluster, p.training, *p.engine);
    std::vector<Configuration> nodes;
    space.layer_group([&](const Configuration& c) { nodes.push_back(c); });
    Random random(static_cast<std::uint64_t>(i));
    for (int round = 0; round < 3; ++round) {
      bool found = false;
      const Configuration c = random_below(space, random.of(nodes), random, found);
      if (!found) continue;
      const Plan plan =
          make_uniform_plan(p.model, p.cluster, p.training, p.engine->name, c.strategy, c.schedule, p.engine->split);
      expect_chunks(context, plan, seen);
    }
  }
}

}  // namespace
}  // namespace espalier::property::steps_test
