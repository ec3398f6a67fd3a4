// SPDX-License-Identifier: Apache-2.0
// Tests that a search on more devices finds what it finds on fewer, and that the gradients of several pipelines meet
// after each pipeline has reduced its own.
#include <gtest/gtest.h>

#include <string>

#include "espalier/job.h"
#include "espalier/planner.h"
#include "plan/engine.h"
#include "planner/prediction.h"
#include "planner/verify.h"

namespace espalier::planner::more_groups_test {
namespace {

PlannerResult planned(const std::string& text) {
  const auto job = load_job(text, "test", ".", {});
  EXPECT_TRUE(job.ok()) << (job ? "" : job.error().message());
  auto result = plan(*job, {});
  EXPECT_TRUE(result.ok()) << (result ? "" : result.error().message());
  return result ? *result : PlannerResult{};
}

std::string small_job(const std::string& groups, const std::string& join, std::int64_t batch) {
  return "model: {model_type: llama, hidden_size: 1024, intermediate_size: 4096, num_hidden_layers: 6, num_attention_heads: 16, "
         "num_key_value_heads: 16, vocab_size: 8192, tie_word_embeddings: true}\ncluster: {groups: [" +
         groups + "], " + join + "}\ntraining: {sequence_length: 1024, global_batch: " + std::to_string(batch) +
         ", precision: fp16}\nengine: generic\nsearch: {memory_margin: 0}\n";
}

std::string group(const std::string& name, int nodes, int devices, const std::string& device) {
  return "{name: " + name + ", nodes: " + std::to_string(nodes) + ", devices_per_node: " + std::to_string(devices) +
         ", device: " + device + "}";
}

// With a third group, budgets left out plans on two of the groups.
TEST(MoreGroups, AGroupMoreIsNotSlower) {
  const std::string join = "inter_group: {bandwidth: 25Gb/s, latency: 20us}";
  const std::string two = group("a", 3, 1, "titan-rtx") + ", " + group("b", 1, 3, "v100-sxm-16gb");
  const PlannerResult fewer = planned(small_job(two, join, 34));
  const PlannerResult more = planned(small_job(two + ", " + group("z", 2, 1, "titan-rtx"), join, 34));
  EXPECT_LE(more.prediction.iteration_ns, fewer.prediction.iteration_ns);
}

TEST(MoreGroups, AnotherNodeIsNotSlower) {
  const std::string join = "inter_group: {bandwidth: 100Gb/s, latency: 5us}";
  const PlannerResult fewer =
      planned(small_job(group("a", 1, 1, "h100-sxm-80gb") + ", " + group("b", 1, 1, "rtx-4090"), join, 32));
  const PlannerResult more =
      planned(small_job(group("a", 1, 1, "h100-sxm-80gb") + ", " + group("b", 2, 1, "rtx-4090"), join, 32));
  EXPECT_LE(more.prediction.iteration_ns, fewer.prediction.iteration_ns);
}

// The phase names plans on some nodes as its own, so its bound must hold for them where a limit leaves them out.
TEST(MoreGroups, ALimitLeavesABoundThatHolds) {
  const std::string text = small_job(group("a", 1, 1, "h100-sxm-80gb") + ", " + group("b", 2, 1, "rtx-4090"),
                                     "inter_group: {bandwidth: 100Gb/s, latency: 5us}", 32);
  const auto job = load_job(text, "test", ".", {});
  ASSERT_TRUE(job.ok());
  PlannerOptions limited;
  limited.node_limit = 50'000;
  const auto result = plan(*job, limited);
  ASSERT_TRUE(result.ok());
  const std::int64_t best_ns = planned(text).prediction.iteration_ns;
  for (const PhaseSummary& phase : result->search.phases)
    EXPECT_TRUE(phase.name != "unequal replicas" || phase.lower_bound_ns <= best_ns);
}

// Devices of unequal speed are searched as classes, which have parts as groups do.
TEST(MoreGroups, AnotherSlowNodeIsNotSlower) {
  const auto slow = [](int nodes, const std::string& speeds) {
    return "{name: a, nodes: " + std::to_string(nodes) + ", devices_per_node: 1, device: h100-sxm-80gb, speed: {" + speeds + "}}";
  };
  const auto with = [&](const std::string& groups) {
    std::string text = small_job(groups, "name: c", 32);
    return planned(text.replace(text.rfind("search: {"), 9, "search: {fix: {pp: 1}, "));
  };
  const PlannerResult fewer = with(slow(2, "\"rank:1\": 0.5"));
  const PlannerResult more = with(slow(3, "\"rank:1\": 0.5, \"rank:2\": 0.5"));
  EXPECT_LE(more.prediction.iteration_ns, fewer.prediction.iteration_ns);
}

// The group with nine nodes has no plan of its own for 32 samples, and the other group has a slow device. The samples
// of concurrent pipelines then follow the arithmetic of the groups.
TEST(MoreGroups, AnotherNodeNextToASlowDeviceIsNotSlower) {
  const auto with = [](const std::string& nodes) {
    return planned(
        "model: {model_type: llama, hidden_size: 1024, intermediate_size: 2048, num_hidden_layers: 3, num_attention_heads: 16, "
        "num_key_value_heads: 16, vocab_size: 8192, tie_word_embeddings: false}\n"
        "cluster: {groups: [{name: a, nodes: 2, devices_per_node: 2, device: v100-sxm-32gb, intra_node: {bandwidth: 12GB/s, "
        "latency: 5us}, inter_node: {bandwidth: 100Gb/s, nics_per_node: 4, latency: 2us}, speed: {\"rank:1\": 0.6}}, {name: b, "
        "nodes: " +
        nodes +
        ", devices_per_node: 1, device: l4, inter_node: {bandwidth: 100Gb/s, nics_per_node: 1, latency: 20us}}]}\n"
        "training: {sequence_length: 2048, global_batch: 32, precision: fp16}\nengine: generic\n");
  };
  EXPECT_LE(with("9").prediction.iteration_ns, with("8").prediction.iteration_ns);
}

// The search under ZB-H1 refines chains of every shape. Chains of 1F1B that are faster there had taken all its places.
TEST(MoreGroups, AFasterLinkIsNotSlower) {
  const auto with = [](const std::string& link) {
    return planned(
        "model: {model_type: llama, hidden_size: 2048, intermediate_size: 6144, num_hidden_layers: 16, num_attention_heads: 16, "
        "num_key_value_heads: 16, vocab_size: 128256, tie_word_embeddings: true}\n"
        "cluster: {groups: [{name: a, nodes: 2, devices_per_node: 2, device: a40, intra_node: {bandwidth: 300GB/s, latency: "
        "10us}, inter_node: {bandwidth: " +
        link +
        ", nics_per_node: 1, latency: 2us}}, {name: b, nodes: 2, devices_per_node: 1, device: a40, inter_node: {bandwidth: "
        "10Gb/s, nics_per_node: 1, latency: 5us}}], inter_group: {bandwidth: 400Gb/s, latency: 5us}}\n"
        "training: {sequence_length: 2048, global_batch: 64, precision: bf16}\nengine: generic\n"
        "search: {memory_margin: 0, allow: {schedule: [1f1b, zb-h1]}}\n");
  };
  EXPECT_LE(with("50Gb/s").prediction.iteration_ns, with("25Gb/s").prediction.iteration_ns);
}

// The gradient of a tied table is complete only after the backward pass. Its reduction inside a pipeline was priced
// after the pipelines had met, which the independent check rejects.
TEST(SeveralPipelines, MeetAfterTheEndOfTheirReductions) {
  const PlannerResult result = planned(
      "model: {model_type: t5, d_model: 512, d_kv: 64, d_ff: 2048, num_layers: 6, num_decoder_layers: 2, num_heads: 8, "
      "vocab_size: 32128, feed_forward_proj: relu}\n"
      "cluster: {groups: [{name: a, nodes: 1, devices_per_node: 1, device: a10g, inter_node: {bandwidth: 400Gb/s, nics_per_node: "
      "4, latency: 2us}, speed: {\"rank:0\": 0.7}}, {name: b, nodes: 6, devices_per_node: 1, device: a40, inter_node: "
      "{bandwidth: 50Gb/s, nics_per_node: 4, latency: 20us}}], memory_limit: 3GiB}\n"
      "training: {sequence_length: {encoder: 256, decoder: 128}, global_batch: 46, precision: bf16}\nengine: generic\n"
      "search: {memory_margin: 0}\n");
  EXPECT_GT(result.prediction.iteration_ns, 0);
}

// The last stage of the chain lies on the second group and holds a copy of the token table, with the strategy of the
// first stage. Three ranks shard it together with the layers of their stage. The independent checker accepts the plan
// only if both are rounded up as one.
TEST(SeveralGroups, ACopyOfTheTableIsShardedWithItsStage) {
  const auto job = load_job(
      "model: {model_type: llama, hidden_size: 4096, intermediate_size: 12288, num_hidden_layers: 4, num_attention_heads: 32, "
      "num_key_value_heads: 32, vocab_size: 32000, tie_word_embeddings: true}\ncluster: {groups: [" +
          group("a", 3, 1, "a100-sxm-40gb") + ", " + group("b", 3, 1, "v100-sxm-32gb") +
          "], inter_group: {bandwidth: 100Gb/s, latency: 5us}}\ntraining: {sequence_length: 1024, global_batch: 6, precision: "
          "fp16}\nengine: generic\n",
      "test", ".", {});
  ASSERT_TRUE(job) << job.error().message();
  const EngineModel& engine = *engine_of(*job).value();
  Strategy s;
  s.dp = s.shard = 3;
  s.zero = ZeroStage::optimizer;
  Strategy last = s;
  last.recompute.kind = RecomputeKind::selective;
  Plan plan = document_of(*job, engine, s, Schedule{});
  Pipeline& pipeline = plan.only_pipeline();
  pipeline.schedule = {ScheduleKind::one_f_one_b, 2, 1, 2, 1};
  pipeline.stages = {Stage{{{0, 3, 1}}, {Chunk{{LayerRange{0, 2, s}}}}}, Stage{{{3, 3, 1}}, {Chunk{{LayerRange{3, 5, last}}}}}};
  const auto timed = time_plan(*job, engine, plan, false);
  ASSERT_TRUE(timed) << timed.error().message();
  const Status status = verify(*job, engine, plan, *timed);
  EXPECT_TRUE(status.ok()) << status.error().message();
}

// Stages on several groups run under no engine. The nearest launchable plan lies on one group and names it.
TEST(SeveralGroups, NameAPlanThatAnEngineLaunches) {
  const PlannerResult result = planned(small_job(group("new", 1, 4, "a100-sxm-80gb") + ", " + group("old", 1, 4, "v100-sxm-16gb"),
                                                 "inter_group: {bandwidth: 100Gb/s, latency: 5us}", 64));
  ASSERT_TRUE(result.runs_on.has_value());
  if (!result.runs_on->empty()) return;
  ASSERT_TRUE(result.runnable.has_value());
  EXPECT_NE(result.runnable->label.find(" on new alone"), std::string::npos) << result.runnable->label;
}

}  // namespace
}  // namespace espalier::planner::more_groups_test
