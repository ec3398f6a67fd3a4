// SPDX-License-Identifier: Apache-2.0
// Tests pipelines on two groups over named links. Their gradients meet in one direction of the path, and over a
// link of each pair of nodes. A floor for the other direction, or for one link for all pairs, exceeded the plans
// that were found.
#include <gtest/gtest.h>

#include <string>

#include "espalier/job.h"
#include "espalier/planner.h"

namespace espalier::planner::named_links_test {
namespace {

PlannerResult planned(const std::string& groups, const std::string& links) {
  const auto job = load_job(
      "model: {model_type: llama, hidden_size: 2048, intermediate_size: 2048, num_hidden_layers: 8, num_attention_heads: 16, "
      "num_key_value_heads: 16, vocab_size: 1024, tie_word_embeddings: false}\ncluster: {groups: [" +
          groups + "], links: [" + links +
          "]}\ntraining: {sequence_length: 4096, global_batch: 128, precision: bf16}\nengine: generic\n"
          "search: {devices: all, allow: {pp: [1], tp: [1], micro_batch: [1], schedule: [1f1b], zero: [0]}}\n",
      "test", ".", {});
  EXPECT_TRUE(job.ok()) << (job ? "" : job.error().message());
  auto result = plan(*job, {});
  EXPECT_TRUE(result.ok()) << (result ? "" : result.error().message());
  return result ? *result : PlannerResult{};
}

std::string group(const std::string& name, int nodes, int devices) {
  return "{name: " + name + ", nodes: " + std::to_string(nodes) + ", devices_per_node: " + std::to_string(devices) +
         ", device: a100-sxm-80gb, inter_node: {kind: ethernet, bandwidth: 100Gb/s, nics_per_node: 1}}";
}

TEST(NamedLinks, TheSlowDirectionOfAnAsymmetricPathIsNoFloor) {
  const PlannerResult result = planned(group("a", 2, 4) + ", " + group("b", 2, 4),
                                       "{from: a, to: b, bandwidth: 100Gb/s, latency: 50us, both: false}, {from: b, to: a, "
                                       "bandwidth: 100Mb/s, latency: 50us, both: false}");
  EXPECT_EQ(result.plan.pipelines.size(), 2U);
  EXPECT_LE(result.search.lower_bound_ns, result.prediction.iteration_ns);
}

TEST(NamedLinks, EveryPairOfNodesHasItsLink) {
  const PlannerResult result = planned(group("a", 8, 1) + ", " + group("b", 8, 1),
                                       "{from: a, to: b, bandwidth: 1Gb/s, latency: 50us, sharing: node_pair, both: true}");
  EXPECT_EQ(result.plan.pipelines.size(), 2U);
  EXPECT_LE(result.search.lower_bound_ns, result.prediction.iteration_ns);
}

}  // namespace
}  // namespace espalier::planner::named_links_test
