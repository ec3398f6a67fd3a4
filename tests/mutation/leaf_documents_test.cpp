// SPDX-License-Identifier: Apache-2.0
// Builds the documents, and checks that true ones pass with nothing left unverified.
#include "leaf_documents.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "espalier/adapt.h"
#include "espalier/job.h"
#include "espalier/observation.h"
#include "espalier/planner.h"

namespace espalier::mutation {
namespace {

constexpr const char* kModel =
    R"({model_type: llama, hidden_size: 512, intermediate_size: 1024, num_attention_heads: 8, num_key_value_heads: 4, num_hidden_layers: 8,
       vocab_size: 32000, max_position_embeddings: 2048, tie_word_embeddings: true})";

constexpr const char* kEqual = "{nodes: 4, devices_per_node: 2, device: a100-sxm-80gb}";
constexpr const char* kGroups =
    "{groups: [{name: new, nodes: 1, devices_per_node: 2, device: a100-sxm-80gb, price_per_device_hour: 3}, {name: old, nodes: "
    "1, "
    "devices_per_node: 2, device: a40, price_per_device_hour: 1}], links: [{from: new, to: old, bandwidth: 200Gb/s, latency: "
    "50us, both: true}]}";

Job job_on(const std::string& cluster, const std::string& search, const std::string& training = "global_batch: 64",
           const std::string& more = "") {
  auto job = load_job(std::string("{model: ") + kModel + ", cluster: " + cluster + ", training: {sequence_length: 1024, " +
                          training + "}, search: " + search + more + "}",
                      "test", "", {});
  EXPECT_TRUE(job.ok()) << (job.ok() ? "" : job.error().message());
  return job.value();
}

std::string planned(const Job& job, PlannerOptions how = {}) {
  how.threads = 1;
  const auto result = plan(job, how);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message());
  return result ? to_json(*result) : "";
}

Plan uniform_plan(const Job& job, std::int32_t pp, ZeroStage zero) {
  Strategy s;
  s.dp = static_cast<std::int32_t>(job.cluster.devices()) / pp;
  s.zero = zero;
  s.shard = shards_optimizer(zero) ? s.dp : 1;
  Schedule schedule;
  schedule.stages = pp;
  schedule.microbatches = static_cast<std::int32_t>(job.training.global_batch / s.dp);
  return estimate(job, s, schedule).value().plan;
}

void add_results(std::vector<LeafDocument>& out) {
  const std::string few = "allow: {tp: [1, 2]}, fix: {cp: 1, recompute: none}";
  PlannerOptions all, simple;
  all.engines = all.restriction = true;
  simple.simple = true;
  out.push_back({"one group", planned(job_on(kEqual, "{" + few + "}"), {})});
  out.push_back(
      {"everything beside it", planned(job_on(kEqual, "{" + few + "}", "global_batch: 60", ", engine: megatron-core"), all)});
  out.push_back({"simplest", planned(job_on(kEqual, "{" + few + "}"), simple)});
  out.push_back({"layer-wise", planned(job_on(kEqual, "{space: layerwise, " + few + "}", "global_batch: 64, tokens: 1e9"))});
  out.push_back({"nothing uniform fits", planned(load_job(R"({
      model: {hidden: 1024, vocabulary: 32000, repeat: 3, blocks: [{count: 2, mixer: mamba2, mamba_n_heads: 32, mamba_n_groups: 4, mamba_d_state: 64,
              ffn: 3072}, {heads: 16, kv_heads: 4, ffn: 3072}]},
      cluster: {nodes: 3, devices_per_node: 1, device: a100-sxm-40gb, inter_node: {bandwidth: 100Gb/s, nics_per_node: 1, latency: 2us},
                memory_limit: 2GiB},
      training: {sequence_length: 2048, global_batch: 48, precision: fp16}, engine: generic, search: {space: layerwise}})",
                                                          "test", "", {})
                                                     .value())});
  out.push_back({"partitions", planned(job_on("{nodes: 1, devices_per_node: 4, device: a100-sxm-80gb}",
                                              "{space: spatial_temporal, fix: {cp: 1, recompute: none, pp: 1}}"))});
  out.push_back({"several groups", planned(job_on(kGroups, "{devices: any, " + few + "}"))});
  out.push_back({"limited", [&] {
                   PlannerOptions limited;
                   limited.node_limit = 3;
                   return planned(job_on(kEqual, "{" + few + "}"), limited);
                 }()});
  Job flow = job_on(kEqual, "{}");
  flow.network = NetworkKind::flow;
  out.push_back({"flow network", to_json(simulate(flow, uniform_plan(flow, 2, ZeroStage::optimizer)).value())});
}

void add_changes(std::vector<LeafDocument>& out) {
  const Job four = job_on(kEqual, "{limits: {tp: 2}}");
  const Plan shards = uniform_plan(four, 1, ZeroStage::optimizer), stages = uniform_plan(four, 4, ZeroStage::none),
             halves = uniform_plan(four, 2, ZeroStage::none);
  adapt::ChangeOptions options;
  options.threads = 1;
  adapt::Disturbance lost, slow, narrow;
  lost.lost = {"node:1"};
  slow.slow = {{"rank:3", 2.0}};
  narrow.links = {{"node:2", 0.2}};
  narrow.added = {{"a", 1}};
  out.push_back({"what-if lost", to_json(adapt::what_if(four, shards, lost, options).value(), shards)});
  out.push_back({"what-if slow", to_json(adapt::what_if(four, halves, slow, options).value(), halves)});
  out.push_back({"what-if narrow", to_json(adapt::what_if(four, stages, narrow, options).value(), stages)});
  out.push_back({"survive", to_json(adapt::survive(four, stages, 2, options).value(), stages)});
  adapt::Observation seen, well;
  seen.lost = {"node:2"};
  seen.steps = {{0.5, std::nullopt}};
  well.steps = {{0.5, std::nullopt}};
  out.push_back({"replan", to_json(adapt::replan(four, halves, seen, options).value(), halves)});
  out.push_back({"replan, nothing wrong", to_json(adapt::replan(four, halves, well, options).value(), halves)});
}

}  // namespace

const std::vector<LeafDocument>& leaf_documents() {
  static const std::vector<LeafDocument> all = [] {
    std::vector<LeafDocument> out;
    add_results(out);
    add_changes(out);
    return out;
  }();
  return all;
}

const LeafDocument& plan_document() {
  static const LeafDocument one{"plan", to_json(uniform_plan(job_on(kEqual, "{}"), 2, ZeroStage::optimizer))};
  return one;
}

TEST(LeafMutation, TruthfulDocumentsPassAndNothingIsLeftUnverified) {
  ASSERT_GE(leaf_documents().size(), 15U);
  for (const LeafDocument& d : leaf_documents()) {
    const CheckReport report = checked(d.text);
    for (const Finding& f : report.findings) EXPECT_TRUE(f.ok) << d.name << ": " << f.name << ": " << f.text;
    const Node root = base::read_json(d.text, d.name)->root;
    const std::vector<Leaf> leaves = leaves_of(root);
    EXPECT_TRUE(report.not_verified.empty()) << d.name;
    std::printf("%-24s %5zu leaves\n", d.name.c_str(), leaves.size());
  }
  for (const Finding& f : checked(plan_document().text).findings) EXPECT_TRUE(f.ok) << f.name << ": " << f.text;
}

}  // namespace espalier::mutation
