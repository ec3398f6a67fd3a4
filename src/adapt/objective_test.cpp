// SPDX-License-Identifier: Apache-2.0
#include "espalier/objective.h"

#include <gtest/gtest.h>

#include "adapt/test_jobs.h"

namespace espalier::adapt {
namespace {

constexpr const char* kPriced = "{nodes: 4, devices_per_node: 2, device: a100-sxm-80gb, price_per_device_hour: 2}";

/// The figures of a size must agree: a step costs hours times the price of its nodes, and the answer is the cheapest.
TEST(PlanForObjective, TheCheapestOfAllSizes) {
  const Job job = small_job(kPriced, "{objective: {minimise: cost}}");
  const auto found = plan_for_objective(job, {});
  ASSERT_TRUE(found.ok()) << found.error().message();
  ASSERT_EQ(found->sizes.size(), 3U);  // with 1, 2 and 4 nodes
  for (const SizeAnswer& a : found->sizes) {
    EXPECT_DOUBLE_EQ(a.per_hour, 2.0 * static_cast<double>(a.devices));
    if (!a.iteration_ns) continue;
    ASSERT_TRUE(a.expense);
    EXPECT_NEAR(a.expense->per_step, static_cast<double>(*a.iteration_ns) * 1e-9 / 3600 * a.per_hour, 1e-12);
    EXPECT_GE(a.expense->per_step, found->sizes[found->best].expense->per_step);
    EXPECT_GT(a.expense->per_step, found->least_cost);
  }
  EXPECT_EQ(found->answer->prediction.iteration_ns, found->sizes[found->best].iteration_ns);
  EXPECT_EQ(found->answer->prediction.cost->devices, found->sizes[found->best].devices);
}

/// Lies between the cheapest and the fastest: a budget that four nodes exceed and fewer do not, and a deadline that
/// only four nodes meet.
TEST(PlanForObjective, BudgetAndDeadline) {
  Job job = small_job(kPriced, "{objective: {minimise: time}}");
  const auto fastest = plan_for_objective(job, {});
  ASSERT_TRUE(fastest.ok());
  EXPECT_EQ(fastest->sizes[fastest->best].nodes_by_group, (std::vector<std::int64_t>{4}));
  const double most = fastest->sizes[fastest->best].expense->per_step;
  job.objective->budget_per_step = most * 0.999;
  const auto cheaper = plan_for_objective(job, {});
  ASSERT_TRUE(cheaper.ok()) << cheaper.error().message();
  EXPECT_LT(cheaper->sizes[cheaper->best].expense->per_step, most);
  EXPECT_LT(cheaper->sizes[cheaper->best].devices, 8);
  job.objective->budget_per_step = most / 1000;
  const auto none = plan_for_objective(job, {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::infeasible);

  job.objective = Objective{Objective::Minimise::cost, std::nullopt, std::nullopt};
  job.training.tokens = 1e9;
  const double steps = 1e9 / (64 * 1024);
  job.objective->deadline_s = steps * static_cast<double>(*fastest->sizes[fastest->best].iteration_ns) * 1.001e-9;
  const auto timely = plan_for_objective(job, {});
  ASSERT_TRUE(timely.ok()) << timely.error().message();
  EXPECT_EQ(timely->sizes[timely->best].nodes_by_group, (std::vector<std::int64_t>{4}));
}

/// One node is too slow, eight are fast enough. Every number between them is tried, and the answer is the cheapest
/// that holds.
TEST(PlanForObjective, EveryNumberOfNodesBetweenFailingAndHolding) {
  const auto on = [](int nodes) {
    Job job =
        small_job("{nodes: " + std::to_string(nodes) + ", devices_per_node: 1, device: a100-sxm-80gb, price_per_device_hour: 2}",
                  "{objective: {minimise: time}}");
    job.training.tokens = 1e9;
    return job;
  };
  const auto fastest_ns = [&](int nodes) {
    const auto answer = plan_for_objective(on(nodes), {});
    return answer.ok() ? answer->answer->prediction.iteration_ns : 0;
  };
  // The deadline is half way between the steps of four and of eight nodes: four fail, eight hold.
  const std::int64_t four = fastest_ns(4), eight = fastest_ns(8);
  ASSERT_GT(four, eight);
  Job job = on(8);
  job.objective = Objective{Objective::Minimise::cost, std::nullopt, std::nullopt};
  job.objective->deadline_s = 1e9 / (64 * 1024) * 0.5e-9 * static_cast<double>(four + eight);
  const auto found = plan_for_objective(job, {});
  ASSERT_TRUE(found.ok()) << found.error().message();
  EXPECT_EQ(found->sizes.size(), 7U);  // and also 5, 6, 7
  for (const SizeAnswer& a : found->sizes) {
    if (!a.within) continue;
    EXPECT_GE(a.expense->per_step, found->sizes[found->best].expense->per_step);
  }
}

/// A miss is stated in days and money of the whole run, and the stated remedy works.
TEST(PlanForObjective, ByHowMuchNothingHolds) {
  Job job = small_job(kPriced, "{objective: {minimise: cost, deadline: 1s}}");
  job.training.tokens = 1e12;
  const auto late = plan_for_objective(job, {});
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::infeasible);
  EXPECT_NE(late.error().found.find("after the deadline"), std::string::npos) << late.error().message();
  const std::size_t at = late.error().hint.find("a deadline of ");
  ASSERT_NE(at, std::string::npos) << late.error().message();
  job.objective->deadline_s = std::stod(late.error().hint.substr(at + 14)) * 86400;
  EXPECT_TRUE(plan_for_objective(job, {}).ok());
  job.objective = Objective{Objective::Minimise::time, 1e-9, std::nullopt};
  const auto dear = plan_for_objective(job, {});
  ASSERT_FALSE(dear.ok());
  EXPECT_NE(dear.error().found.find("over the budget"), std::string::npos) << dear.error().message();
}

/// Padded samples of which a quarter is real take four times as many steps for the same tokens. A deadline that holds
/// for full samples is missed.
TEST(PlanForObjective, ADeadlineCountsTokensThatAreReal) {
  Job job = small_job(kPriced, "{objective: {minimise: time}}");
  job.training.tokens = 1e9;
  const auto fastest = plan_for_objective(job, {});
  ASSERT_TRUE(fastest.ok());
  job.objective = Objective{Objective::Minimise::cost, std::nullopt, std::nullopt};
  job.objective->deadline_s = fastest->answer->prediction.days * 86400 * 2;
  EXPECT_TRUE(plan_for_objective(job, {}).ok());
  job.training.lengths.histogram = {{job.training.sequence.main / 4, 1}};
  const auto late = plan_for_objective(job, {});
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::infeasible);
  job.objective->deadline_s = *job.objective->deadline_s * 2.1;
  const auto timely = plan_for_objective(job, {});
  ASSERT_TRUE(timely.ok()) << timely.error().message();
  EXPECT_LE(timely->answer->prediction.days * 86400, *job.objective->deadline_s);
}

TEST(PlanForObjective, RefusesWhatItCannotPrice) {
  const auto refused = [](const Job& job) {
    const auto found = plan_for_objective(job, {});
    EXPECT_FALSE(found.ok());
    return found.ok() ? std::string() : found.error().message();
  };
  EXPECT_NE(refused(small_job("{nodes: 2, devices_per_node: 2, device: a100-sxm-80gb}", "{objective: {minimise: cost}}"))
                .find("no price"),
            std::string::npos);
  EXPECT_NE(refused(small_job(kPriced, "{objective: {deadline: 10d}}")).find("training.tokens"), std::string::npos);
  EXPECT_NE(refused(small_job("{nodes: 2, devices_per_node: 2, device: a100-sxm-80gb, speed: {\"node:1\": 0.5}}",
                              "{objective: {minimise: time}}"))
                .find("unequal speed"),
            std::string::npos);
}

/// One of two kinds is far cheaper for its speed; the other is left out.
TEST(PlanForObjective, LeavesTheDearKindOut) {
  const Job job = small_job(
      "{groups: [{name: dear, nodes: 1, devices_per_node: 2, device: a100-sxm-80gb, price_per_device_hour: 20}, {name: cheap, "
      "nodes: 2, "
      "devices_per_node: 2, device: a100-sxm-80gb, price_per_device_hour: 1}], inter_group: {bandwidth: 100Gb/s, latency: 5us}}",
      "{objective: {minimise: cost}}");
  const auto found = plan_for_objective(job, {});
  ASSERT_TRUE(found.ok()) << found.error().message();
  EXPECT_EQ(found->sizes[found->best].nodes_by_group[0], 0);
  EXPECT_GT(found->sizes[found->best].nodes_by_group[1], 0);
  EXPECT_EQ(found->sizes.size(), 5U);  // 0 or 1 by 0, 1 or 2, without nothing
  // The cost covers the devices that the answer uses.
  EXPECT_EQ(found->sizes[found->best].devices, found->answer->prediction.cost->devices);
}

/// A size of one group is that group as a cluster of its own. Its plan can be read again and checked.
TEST(PlanForObjective, AnswersStandAlone) {
  const Job job = small_job(
      "{groups: [{name: dear, nodes: 1, devices_per_node: 2, device: a100-sxm-80gb, price_per_device_hour: 20}, {name: cheap, "
      "nodes: 2, "
      "devices_per_node: 2, device: a100-sxm-80gb, price_per_device_hour: 1}], inter_group: {bandwidth: 1Gb/s, latency: 5us}}",
      "{objective: {minimise: cost}}");
  const auto found = plan_for_objective(job, {});
  ASSERT_TRUE(found.ok()) << found.error().message();
  for (const SizeAnswer& size : found->sizes) EXPECT_EQ(size.label.find("claimed"), std::string::npos) << size.label;
  const auto again = job_of_plan(found->answer->plan);
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(again->cluster.groups.size(), 1U);
  const auto simulated = simulate(*again, found->answer->plan);
  ASSERT_TRUE(simulated.ok()) << simulated.error().message();
  EXPECT_EQ(simulated->prediction.iteration_ns, found->answer->prediction.iteration_ns);
}

}  // namespace
}  // namespace espalier::adapt
