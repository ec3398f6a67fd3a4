// SPDX-License-Identifier: Apache-2.0
// Tests training in bf16. The loss of each step (four of them, 20 with ESPALIER_RUNTIME_ALL=1) is within 2⁻¹⁰,
// relatively, of one process in fp32, for every plan. It is within 2⁻¹¹ of one process in bf16
// (docs/runtime.md explains why).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/crew.h"
#include "runtime/heterogeneous_plans.h"
#include "runtime/small_plans.h"

namespace espalier::runtime::testing::mixed_precision_test {
namespace {

struct Case {
  std::string name;
  const char* config;
  Plan plan;
};

Plan in_bf16(Plan plan) {
  plan.training.precision = Precision::bf16;
  return plan;
}

Plan one(const char* config) { return plan_of(config, strategy(1, 1), schedule(ScheduleKind::one_f_one_b, 1)); }

std::vector<Case> cases() {
  const Schedule whole = schedule(ScheduleKind::one_f_one_b, 1);
  constexpr SequenceParallel sp = SequenceParallel::megatron, ulysses = SequenceParallel::ulysses;
  Strategy selective = context(strategy(1, 1), 2);
  selective.recompute.kind = RecomputeKind::selective;
  Plan unlike = plan_of(kLlama, strategy(2, 2, 1), schedule(ScheduleKind::one_f_one_b, 2, 1, 2));
  respread(unlike, 2, 3, strategy(1, 4, 2));
  std::vector<Case> all{
      {"one-gpt2", kGpt2, one(kGpt2)},
      {"one-llama", kLlama, one(kLlama)},
      {"dp4-zero3", kLlama, plan_of(kLlama, strategy(1, 4, 3), whole)},
      {"pp4-zb-h1-tied", kGpt2, plan_of(kGpt2, strategy(1, 1), schedule(ScheduleKind::zb_h1, 4))},
      {"cp2-ring-selective", kLlama, plan_of(kLlama, selective, whole)},
      {"tp4-sp", kLlama, plan_of(kLlama, strategy(4, 1, 0, sp), whole)},
  };
  if (!runs_all()) return all;
  const std::vector<Case> more{
      {"dp4-zero1", kGpt2, plan_of(kGpt2, strategy(1, 4, 1), whole)},
      {"tp2-dp2-zero2", kGpt2, plan_of(kGpt2, strategy(2, 2, 2), whole)},
      {"ulysses2-dp2", kLlama, plan_of(kLlama, strategy(2, 2, 0, ulysses), whole)},
      {"layers-unlike-pp2", kLlama, unlike},
      {"one-qwen3", kQwen3, one(kQwen3)},
      {"qwen3-tp2-pp2", kQwen3, plan_of(kQwen3, strategy(2, 1), schedule(ScheduleKind::one_f_one_b, 2))},
      {"one-mixtral", kMixtral, one(kMixtral)},
  };
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string exact_name(const Case& c) { return "fp32-" + std::to_string(std::hash<std::string>()(c.config)); }

/// Both bounds hold in every step.
TEST(MixedPrecision, LossesStayNear) {
  std::vector<Assignment> work;
  for (const Case& c : cases()) {
    work.push_back({c.name, in_bf16(c.plan), {}});
    if (c.name.rfind("one-", 0) == 0) work.push_back({exact_name(c), c.plan, {}});
  }
  for (Assignment& assignment : work) assignment.options.steps = steps_of_a_run();
  const auto steps = static_cast<std::size_t>(steps_of_a_run());
  const auto outcomes = run_all(work, 300);
  std::map<std::string, const Outcome*> alone;  // in bf16, by configuration
  double from_fp32 = 0, from_alone = 0;
  for (const Case& c : cases()) {
    ASSERT_TRUE(validate(in_bf16(c.plan)).ok()) << c.name << ": " << validate(in_bf16(c.plan)).error().message();
    if (c.name.rfind("one-", 0) == 0) alone[c.config] = &outcomes.at(c.name);
  }
  for (const Case& c : cases()) {
    const Outcome &exact = outcomes.at(exact_name(c)), &found = outcomes.at(c.name), &one = *alone.at(c.config);
    ASSERT_EQ(exact.steps.size(), steps) << exact.errors;
    ASSERT_EQ(found.steps.size(), steps) << c.name << ": " << found.errors;
    for (std::size_t k = 0; k < steps; ++k) {
      EXPECT_NEAR(found.steps[k].loss / exact.steps[k].loss, 1, 0x1p-10) << c.name << ", step " << k;
      EXPECT_NEAR(found.steps[k].loss / one.steps[k].loss, 1, 0x1p-11) << c.name << ", step " << k;
      from_fp32 = std::max(from_fp32, std::abs(found.steps[k].loss / exact.steps[k].loss - 1));
      from_alone = std::max(from_alone, std::abs(found.steps[k].loss / one.steps[k].loss - 1));
    }
    EXPECT_NE(found.steps[0].loss, exact.steps[0].loss) << c.name << " is not in bf16";
  }
  RecordProperty("from_fp32", std::to_string(from_fp32));
  RecordProperty("from_one_process", std::to_string(from_alone));
}

}  // namespace
}  // namespace espalier::runtime::testing::mixed_precision_test
