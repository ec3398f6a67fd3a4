// SPDX-License-Identifier: Apache-2.0
// Runs random small plans for three steps each: the loss of each is within 1e-5 of that of one process,
// relatively. One crew runs all of them, one after the other: 20 every time, 300 with ESPALIER_RUNTIME_ALL=1
// (./dev bench runtime).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/crew.h"
#include "runtime/random_plans.h"

namespace espalier::runtime::testing::random_plans_test {
namespace {

constexpr std::int64_t kSteps = 3;

std::string name_of(std::uint32_t seed) { return "random-" + std::to_string(seed); }
std::string alone(const char* config) { return "alone-" + std::to_string(std::hash<std::string>()(config)); }

Assignment assignment(std::string name, Plan plan) {
  Assignment out{std::move(name), std::move(plan), {}};
  out.options.steps = kSteps;
  return out;
}

TEST(RandomPlans, TrainAsOneProcessDoes) {
  const std::uint32_t count = runs_all() ? 300 : 20;
  std::vector<Assignment> work;
  for (const char* config : {kLlama, kTiedLlama, kGpt2, kQwen2})
    work.push_back(assignment(alone(config), plan_of(config, strategy(1, 1), schedule(ScheduleKind::one_f_one_b, 1))));
  std::vector<const char*> configs;
  std::vector<Plan> plans;
  for (std::uint32_t seed = 0; seed < count; ++seed) {
    RandomPlan random(seed);
    plans.push_back(random.plan());
    configs.push_back(random.config);
    const Status fault = validate(plans.back());
    ASSERT_TRUE(fault.ok()) << "seed " << seed << ": " << fault.error().message();
    work.push_back(assignment(name_of(seed), plans.back()));
  }
  const auto outcomes = run_all(work, 30 + 6 * count);
  std::int32_t several = 0, unequal = 0;
  for (std::uint32_t seed = 0; seed < count; ++seed) {
    const Plan& plan = plans[seed];
    const Outcome &expected = outcomes.at(alone(configs[seed])), &found = outcomes.at(name_of(seed));
    several += plan.pipelines.size() > 1 ? 1 : 0;
    for (const Pipeline& pipeline : plan.pipelines) unequal += uneven_replicas(pipeline.stages.front()) ? 1 : 0;
    ASSERT_EQ(expected.steps.size(), static_cast<std::size_t>(kSteps)) << expected.errors;
    ASSERT_EQ(found.steps.size(), static_cast<std::size_t>(kSteps)) << "seed " << seed << ": " << plan.canonical_text() << "\n"
                                                                    << found.errors;
    for (std::size_t k = 0; k < found.steps.size(); ++k)
      EXPECT_NEAR(found.steps[k].loss / expected.steps[k].loss, 1, 1e-5)
          << "seed " << seed << ", step " << k << ": " << plan.canonical_text();
  }
  EXPECT_GT(several, 0);
  EXPECT_GT(unequal, 0);
}

}  // namespace
}  // namespace espalier::runtime::testing::random_plans_test
