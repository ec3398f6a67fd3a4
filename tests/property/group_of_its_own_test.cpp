// SPDX-License-Identifier: Apache-2.0
// Tests that a plan on neighbouring devices of one node group costs the same as on that group as a separate
// cluster. This holds in all rank orders, for any of several groups, and if nodes are left out. The check derives
// the same costs.
#include <gtest/gtest.h>

#include <string>

#include "base/format.h"
#include "check/check.h"
#include "espalier/job.h"
#include "espalier/plan.h"
#include "plan/device_block.h"
#include "plan/engine.h"
#include "planner/plan_claims.h"
#include "planner/prediction.h"
#include "random.h"

namespace espalier::property::group_of_its_own_test {
namespace {

const int kPlans = cases(400, 4000);

struct OneGroup {
  std::int64_t nodes = 1, devices = 1;
  std::string device, network;
  [[nodiscard]] std::string text(std::int64_t of) const {
    return cat("nodes: ", of, ", devices_per_node: ", devices, ", device: ", device, ", inter_node: ", network);
  }
};

OneGroup any_group(Random& random) {
  return {random.of(std::vector<std::int64_t>{1, 2, 3, 4}), random.of(std::vector<std::int64_t>{1, 2, 4, 8}),
          random.of(std::vector<std::string>{"a100-sxm-80gb", "h100-sxm-80gb", "l40s"}),
          cat("{bandwidth: ", random.of(std::vector<int>{10, 100, 400}), "Gb/s, nics_per_node: ",
              random.of(std::vector<int>{1, 2}), ", latency: ", random.of(std::vector<int>{2, 50}), "us}")};
}

Job job_on(const std::string& cluster) {
  auto job = load_job(cat("model: {model_type: llama, hidden_size: 512, intermediate_size: 1408, num_attention_heads: 8, "
                          "num_key_value_heads: 8, num_hidden_layers: 8, vocab_size: 4096, max_position_embeddings: 1024, "
                          "tie_word_embeddings: true}\ncluster: ",
                          cluster, "\ntraining: {sequence_length: 1024, global_batch: 96, precision: bf16}\nengine: generic\n"),
                      "test", ".", {});
  EXPECT_TRUE(job.ok()) << (job ? "" : job.error().message());
  return *job;
}

/// Draws a uniform configuration of all devices of a cluster; returns false if dp does not divide the batch.
bool any_configuration(Random& random, std::int64_t devices, Strategy& s, Schedule& schedule) {
  s = Strategy{};
  s.order = random.of(std::vector<RankOrder>{RankOrder::tp_cp_dp_pp, RankOrder::tp_cp_pp_dp, RankOrder::tp_dp_cp_pp});
  std::int64_t left = devices;
  const auto take = [&](std::int32_t most) {
    std::int32_t degree = 1;
    while (degree * 2 <= most && left % 2 == 0 && random.one_in(2)) {
      degree *= 2;
      left /= 2;
    }
    return degree;
  };
  s.tp = take(4);
  s.cp = take(2);
  schedule = Schedule{};
  schedule.stages = take(4);
  s.dp = static_cast<std::int32_t>(left);
  if (s.dp > 1 && random.one_in(2)) {
    s.zero = random.of(std::vector<ZeroStage>{ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters});
    if (schedule.stages > 1) s.zero = ZeroStage::optimizer;
    s.shard = static_cast<std::int32_t>(s.data_ranks());
  }
  s.overlap.p2p = schedule.stages > 1 && random.one_in(2);
  s.overlap.grad_reduce = s.data_ranks() > 1 && random.one_in(2);
  s.overlap.param_gather = s.shards_optimizer() && random.one_in(2);
  if (s.tp > 1 && random.one_in(2)) s.sp = SequenceParallel::megatron;
  schedule.micro_batch = 1;
  if (96 % s.dp != 0) return false;
  schedule.microbatches = 96 / s.dp;
  return true;
}

Plan moved(Plan plan, std::int64_t by) {
  for (Stage& stage : plan.pipelines.front().stages)
    for (DeviceRange& range : stage.devices) range.first += by;
  return plan;
}

std::int64_t iteration_of(const Job& job, const Plan& plan) {
  const auto timed = planner::time_plan(job, *find_engine("generic"), plan, false);
  EXPECT_TRUE(timed.ok()) << (timed ? "" : timed.error().message());
  return timed ? timed->simulation.iteration_ns : -1;
}

/// Returns the check of the plan that fails; empty if all hold.
std::string broken_check(const Job& job, const Plan& plan) {
  const auto claims = planner::claims_of(job, plan);
  if (!claims) return claims.error().message();
  const CheckReport report = check::check_plan(plan, job.model, job.cluster, lower(plan, job.model, true), &*claims);
  for (const Finding& finding : report.findings)
    if (!finding.ok) return cat(finding.name, ": ", finding.text);
  return "";
}

TEST(GroupOfItsOwn, CostsWhatItCostsAlone) {
  int compared = 0, other_orders = 0;
  for (int n = 0; n < kPlans; ++n) {
    Random random(static_cast<std::uint64_t>(n));
    const OneGroup first = any_group(random), second = any_group(random);
    const bool behind = random.one_in(2), joined = random.one_in(2);
    const std::int64_t idle = random.between(0, 2);
    const std::string a = cat("{name: a, ", (behind ? second : first).text((behind ? second.nodes : first.nodes + idle)), "}");
    const std::string b = cat("{name: b, ", (behind ? first : second).text((behind ? first.nodes + idle : second.nodes)), "}");
    const std::string join = joined ? "inter_group: {bandwidth: 10Gb/s, latency: 10us}"
                                    : "links: [{from: a, to: b, bandwidth: 10Gb/s, latency: 1ms, both: true}]";
    const Job alone = job_on(cat("{", first.text(first.nodes), "}"));
    const Job several = job_on(cat("{groups: [", a, ", ", b, "], ", join, "}"));
    const Job larger = job_on(cat("{", first.text(first.nodes + 2), "}"));
    Strategy s;
    Schedule schedule;
    if (!any_configuration(random, alone.cluster.devices(), s, schedule)) continue;
    if (!violations(alone.model, alone.cluster, alone.training, s, schedule, find_engine("generic")->split).empty()) continue;
    const Plan own = planner::document_of(alone, *find_engine("generic"), s, schedule);
    const std::int64_t at = behind ? several.cluster.first_device(1) : 0;
    const std::int64_t expected = iteration_of(alone, own);
    const Plan there = moved(own, at);
    ASSERT_TRUE(device_block(there.only_pipeline(), several.cluster)) << n;
    EXPECT_EQ(iteration_of(several, there), expected) << n << " " << to_string(s.order);
    EXPECT_EQ(broken_check(several, there), "") << n << " " << to_string(s.order) << " " << own.label();
    const std::int64_t skipped = random.between(0, 2) * first.devices;
    if (first.nodes > 1) {  // a group of one node has no network by itself
      EXPECT_EQ(iteration_of(larger, moved(own, skipped)), expected) << n << " " << to_string(s.order);
      EXPECT_EQ(broken_check(larger, moved(own, skipped)), "") << n << " " << to_string(s.order) << " " << own.label();
    }
    ++compared;
    other_orders += s.order != RankOrder::tp_cp_dp_pp ? 1 : 0;
  }
  EXPECT_GT(compared, kPlans / 4);
  EXPECT_GT(other_orders, compared / 5);
}

}  // namespace
}  // namespace espalier::property::group_of_its_own_test
