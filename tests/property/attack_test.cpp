// SPDX-License-Identifier: Apache-2.0
// Attacks certified answers on random problems; bench/quality/attack.cpp attacks real models for minutes.
#include <gtest/gtest.h>

#include <cstdio>

#include "attack_layered.h"
#include "attack_uniform.h"
#include "plan/engine.h"
#include "random_problem.h"

namespace espalier::property::attack_test {
namespace {

RandomProblem generic_problem(int index) {
  RandomProblem p = random_problem(index);
  p.engine = find_engine("generic");
  for (auto* part : {&p.space.allowed, &p.space.forbidden}) part->erase(Dimension::recompute_layers);
  p.space.limits.erase(Dimension::recompute_layers);
  return p;
}

Job job_of(const RandomProblem& p, const char* space) {
  Job job;
  job.model = p.model;
  job.cluster = p.cluster;
  job.training = p.training;
  job.search = p.space;
  job.search.kind = space_kind_of(space).value();
  job.search.memory_margin = 0;  // the attack may use all of the memory
  return job;
}

TEST(Attack, NoConfigurationIsFasterThanACertifiedOptimum) {
  std::int64_t tried = 0, fit = 0;
  for (int i = 0; i < cases(60, 600) && !::testing::Test::HasFailure(); ++i) {
    const RandomProblem p = generic_problem(i);
    const auto answer = plan(job_of(p, "uniform"), {});
    if (!answer) continue;
    ASSERT_TRUE(answer->search.optimal);
    const search::Problem view = p.view();
    UniformAttack attack(view, answer->search.lower_bound_ns, static_cast<std::uint64_t>(i));
    attack.random_configurations(100);
    attack.walk({answer->plan.strategy(), answer->plan.only_pipeline().schedule}, 4);
    EXPECT_EQ(attack.tally().faster, 0) << attack.tally().worst << "\n" << describe(p);
    tried += attack.tally().tried;
    fit += attack.tally().fit;
  }
  std::printf("%lld configurations tried, %lld fit, none faster\n", static_cast<long long>(tried), static_cast<long long>(fit));
}

TEST(Attack, NoPerturbedPlanIsBelowTheBoundAndNoSingleChangeHelps) {
  std::int64_t tried = 0, fit = 0, singles = 0;
  int held = 0;
  for (int i = 0; i < cases(60, 600) && !::testing::Test::HasFailure(); ++i) {
    const RandomProblem p = generic_problem(i);
    const auto answer = plan(job_of(p, "layerwise"), {});
    if (!answer) continue;
    const search::Problem view = p.view();
    LayeredAttack attack(view, answer->plan, answer->prediction.iteration_ns, answer->search.lower_bound_ns,
                         static_cast<std::uint64_t>(i));
    if (!attack.holds_answer()) continue;
    ++held;
    attack.perturb(150);
    attack.singles(150);
    EXPECT_EQ(attack.tally().faster, 0) << attack.tally().worst << "\n" << describe(p);
    EXPECT_LE(attack.best_single(), 0.001) << attack.best_single_text() << "\n" << describe(p);
    tried += attack.tally().tried;
    fit += attack.tally().fit;
    singles += attack.singles_tried();
  }
  std::printf("%d answers: %lld plans tried, %lld single changes among them, %lld fit, none below a bound\n", held,
              static_cast<long long>(tried), static_cast<long long>(singles), static_cast<long long>(fit));
  EXPECT_GT(held, 10);
}

}  // namespace
}  // namespace espalier::property::attack_test
