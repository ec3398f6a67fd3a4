// SPDX-License-Identifier: Apache-2.0
// Tests that predictions are between the bounds that the check derives without simulation, on random uniform and
// layer-wise plans. Devices, links, hosts and engines are from very slow to very fast. A check that rejects a true
// answer would be as bad as one that accepts everything.
#include <gtest/gtest.h>

#include <string>

#include "check/check.h"
#include "plan/engine.h"
#include "plan/engine_rules.h"
#include "planner/plan_claims.h"
#include "planner/prediction.h"
#include "random_layered.h"
#include "random_problem.h"

namespace espalier::property::check_bounds_test {
namespace {

const int kUniformProblems = cases(300, 6000), kLayeredProblems = cases(60, 1500);
constexpr int kPlans = 20;

Job job_of(const Model& model, const Cluster& cluster, const Training& training, const EngineModel& engine) {
  Job job;
  job.model = model;
  job.cluster = cluster;
  job.training = training;
  job.engine = engine.name;
  job.cluster.memory_limit.reset();  // only the figures are tested, not whether plans fit
  for (NodeGroup& group : job.cluster.groups)
    if (group.host.known()) group.host.memory = GiB(1024 * 1024);
  return job;
}

/// Returns the failing findings about the plan's figures as text.
std::string broken_figures(const Job& job, const Plan& plan) {
  const auto claims = planner::claims_of(job, plan);
  if (!claims) return claims.error().message();
  const CheckReport report = check::check_plan(plan, job.model, job.cluster, lower(plan, job.model, true), &*claims);
  std::string broken;
  for (const Finding& f : report.findings)
    if (!f.ok) broken += f.name + ": " + f.text + "\n";
  return broken;
}

/// Returns some of the modules that the engine can recompute; an empty set means the engine's default modules.
RecomputeModules random_modules(Random& random, const EngineModel& engine) {
  RecomputeModules out;
  engine.runs.recompute_modules.each([&](RecomputeModule module) {
    if (random.one_in(3)) out.add(module);
  });
  return out;
}

TEST(CheckBounds, HoldForRandomUniformPlans) {
  int plans = 0, named = 0;
  for (int i = 0; i < kUniformProblems; ++i) {
    const RandomProblem p = random_problem(i);
    const Job job = job_of(p.model, p.cluster, p.training, *p.engine);
    const search::Space space(p.model, p.cluster, p.training, *p.engine, p.space);
    std::vector<Configuration> all;
    space.for_each([&](const Configuration& c) { all.push_back(c); });
    Random random(static_cast<std::uint64_t>(i) + 1);
    for (int k = 0; k < kPlans && !all.empty(); ++k) {
      Configuration c = random.of(all);
      if (c.strategy.recompute.kind == RecomputeKind::selective) c.strategy.recompute.modules = random_modules(random, *p.engine);
      named += c.strategy.recompute.modules.any() ? 1 : 0;
      const Plan plan =
          make_uniform_plan(job.model, job.cluster, job.training, job.engine, c.strategy, c.schedule, p.engine->split);
      const std::string broken = broken_figures(job, plan);
      EXPECT_TRUE(broken.empty()) << broken << plan.label() << "\n" << describe(p);
      ++plans;
    }
  }
  EXPECT_GT(plans, kUniformProblems);
  EXPECT_GT(named, kUniformProblems);
}

TEST(CheckBounds, HoldForRandomLayerWisePlans) {
  int plans = 0, refused = 0;
  each_layered_plan(20261122, kLayeredProblems, kPlans, [&](const LayeredProblem& p, const LayeredPlan& x) {
    const Job job = job_of(p.model, p.cluster, p.training, *p.engine);
    const std::string broken = broken_figures(job, x.document);
    // The checker also rejects it, by its own derivation.
    if (!engine_plan_violations(*p.engine, p.model, x.document).empty()) {
      EXPECT_NE(broken.find("engine-layers"), std::string::npos) << broken << describe(p, x);
      ++refused;
      return true;
    }
    EXPECT_TRUE(broken.empty()) << broken << describe(p, x);
    ++plans;
    return broken.empty();
  });
  EXPECT_GT(plans, kLayeredProblems);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace espalier::property::check_bounds_test
