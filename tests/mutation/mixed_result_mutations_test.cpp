// SPDX-License-Identifier: Apache-2.0
// Falsifies answers on unlike devices in one value each: figures, prices, bounds, counters, alternatives. One answer
// is a pipeline through two kinds of device that neither could hold alone, the other a pipeline on each kind.
#include <cmath>

#include "cases.h"
#include "espalier/planner.h"
#include "result_suite.h"
#include "tables.h"

namespace espalier::mutation {
namespace {

ResultCase mixed_answer(const std::string& name, const std::string& model, const std::string& groups, const std::string& training,
                        const std::string& search, const std::vector<std::string>& left_out = {}) {
  const std::string cluster = "{groups: [" + groups +
                              "], links: [{from: new, to: old, bandwidth: 200Gb/s, latency: 50us, both: true}], "
                              "egress_price_per_GB: {new-old: 0.02, old-new: 0.03}}";
  const Job job = real_job(model, cluster, training, "{devices: any, " + search + "}");
  PlannerOptions how;
  how.threads = 1;
  how.left_out_phases = left_out;
  const auto result = plan(job, how);
  EXPECT_TRUE(result.ok()) << name << ": " << (result.ok() ? "" : result.error().message());
  return {name, job, result.ok() ? to_json(*result) : ""};
}

const std::vector<ResultCase>& mixed_results() {
  static const std::vector<ResultCase> cases = {
      mixed_answer("chain", "llama-2-7b",
                   "{name: new, nodes: 1, devices_per_node: 2, device: a100-sxm-40gb, price_per_device_hour: 3}, {name: old, "
                   "nodes: 1, devices_per_node: 4, device: a10, price_per_device_hour: 1}",
                   "{sequence_length: 2048, global_batch: 16, tokens: 1e9}", "memory_margin: 0.2, allow: {tp: [1, 2]}"),
      mixed_answer("several", "llama-3.2-1b",
                   "{name: new, nodes: 1, devices_per_node: 2, device: a100-sxm-80gb, price_per_device_hour: 3}, {name: old, "
                   "nodes: 1, devices_per_node: 2, device: a40, price_per_device_hour: 1}",
                   "{sequence_length: 2048, global_batch: 64}", "allow: {tp: [1, 2]}, limits: {pp: 1}", {"unequal replicas"})};
  return cases;
}

/// Multiplies a number; returns false where there is none.
std::function<bool(Node&)> times(const std::string& path, double factor) {
  return [=](Node& root) {
    Node* node = value_at(root, path);
    if (node == nullptr) return false;
    const double scaled = (node->kind == NodeKind::integer ? static_cast<double>(node->integer) : node->real) * factor;
    if (node->kind == NodeKind::integer) node->integer = static_cast<std::int64_t>(std::llround(scaled));
    node->real = scaled;
    return scaled != 0;
  };
}
std::function<bool(Node&)> number(const std::string& path, std::int64_t value) {
  return [=](Node& root) {
    Node* node = value_at(root, path);
    if (node == nullptr) return false;
    node->kind = NodeKind::integer;
    node->integer = value;
    node->real = static_cast<double>(value);
    return true;
  };
}
std::function<bool(Node&)> text(const std::string& path, const std::string& value) {
  return [=](Node& root) {
    Node* node = value_at(root, path);
    if (node == nullptr) return false;
    node->kind = NodeKind::string;
    node->text = value;
    return true;
  };
}
std::function<bool(Node&)> turned(const std::string& path) {
  return [=](Node& root) {
    Node* node = value_at(root, path);
    if (node == nullptr) return false;
    node->boolean = !node->boolean;
    return true;
  };
}
std::function<bool(Node&)> without(const std::string& parent, const std::string& key) {
  return [=](Node& root) {
    Node* node = value_at(root, parent);
    return node != nullptr && std::erase_if(node->members, [&](const auto& m) { return m.first == key; }) > 0;
  };
}

}  // namespace

std::vector<ResultMutation> mixed_result_mutations() {
  const std::string stage = "plan.pipelines[0].stages[0]";
  return {
      {"a step on unlike devices five per cent faster", "iteration", times("prediction.iteration_s", 0.95)},
      {"a peak of the second stage halved", "peak", times("prediction.peak_memory_bytes_per_stage[1]", 0.5)},
      {"a stage's states counted for another kind", "memory-breakdown",
       times("prediction.memory_breakdown_bytes.optimizer", 0.5)},
      {"the limit of the larger kind", "limit", times("prediction.memory_limit_bytes", 2)},
      {"twice the tokens a second", "throughput", times("prediction.tokens_per_s_per_gpu", 2)},
      {"a step for half its price", "cost", times("prediction.cost.per_step", 0.5)},
      {"tokens for half their price", "cost", times("prediction.cost.per_token", 0.5)},
      {"devices that cost nothing", "cost", number("prediction.cost.per_hour", 0)},
      {"fewer devices paid than stand on the nodes", "cost", number("prediction.cost.devices", 1)},
      {"bytes between the kinds for nothing", "cost", number("prediction.cost.egress_per_step", 0)},
      {"bytes between the kinds left out", "cost", without("prediction.cost", "egress_per_step")},
      {"another currency", "cost", text("prediction.cost.currency", "EUR")},
      {"no price where all nodes have one", "cost", without("prediction", "cost")},
      {"a whole run for a tenth of its price", "cost", times("prediction.cost.whole_run", 0.1)},
      {"a bound above the answer", "certificate", times("search.lower_bound_s", 1.5)},
      {"an answer that is called the best", "certificate", turned("search.optimal")},
      {"a gap that the bound does not give", "certificate", number("search.gap", 0)},
      {"more plans simulated than there were candidates", "counters", number("search.phases[1].counters.simulated", 1'000'000)},
      {"more options dropped than there were", "counters", number("search.phases[1].counters.dropped", 1'000'000)},
      {"more plans without room than were simulated", "counters", number("search.phases[1].counters.out_of_memory", 1'000'000)},
      {"one kind alone is faster than simulated", "alternatives", number("alternatives[0].iteration_s", 1)},
      {"one kind alone fits otherwise", "alternatives", turned("alternatives[0].fits")},
      {"another kind beside the answer", "alternatives", text("alternatives[0].label", "all of them")},
      {"nothing beside the answer", "alternatives",
       [](Node& root) {
         Node* all = value_at(root, "alternatives");
         if (all == nullptr || all->items.empty()) return false;
         all->items.pop_back();
         return true;
       }},
      {"a stage on the devices of the other kind", "iteration", text(stage + ".devices[0]", "0-0")},
      {"a layer less in the first stage", "reader", number(stage + ".layers[0].last", 0)},
      {"a stage of other degrees than its devices have", "reader", times(stage + ".layers[0].strategy.tp", 4)},
      {"samples of a pipeline counted twice", "reader", times("plan.pipelines[0].samples", 2)},
      {"a micro-batch left out", "reader", times("plan.pipelines[0].schedule.microbatches", 0.5)},
      {"a kind of device that is another", "reader", text("plan.cluster.source.groups[1].device", "h100-sxm-80gb")},
      {"a price that is another", "reader", number("plan.cluster.source.groups[0].price_per_device_hour", 0)},
  };
}

TEST(MixedResult, TruthfulAnswersPass) {
  for (const ResultCase& c : mixed_results()) {
    ASSERT_FALSE(c.text.empty()) << c.name;
    for (const Finding& f : findings_of(c, c.text)) EXPECT_TRUE(f.ok) << c.name << ": " << f.name << ": " << f.text;
  }
  const auto chain = result_from_json(mixed_results()[0].text, "chain"),
             several = result_from_json(mixed_results()[1].text, "several");
  ASSERT_TRUE(chain.ok() && several.ok());
  const ResultCase unequal =
      mixed_answer("replicas", "llama-3.2-1b",
                   "{name: new, nodes: 1, devices_per_node: 2, device: a100-sxm-80gb, price_per_device_hour: 3}, {name: old, "
                   "nodes: 1, devices_per_node: 2, device: a100-sxm-40gb, price_per_device_hour: 1}",
                   "{sequence_length: 2048, global_batch: 64}", "allow: {tp: [1, 2]}, limits: {pp: 1}");
  for (const Finding& f : findings_of(unequal, unequal.text)) EXPECT_TRUE(f.ok) << f.name << ": " << f.text;
  EXPECT_GT(chain->plan.pipelines.front().stages.size(), 1U);
  EXPECT_EQ(several->plan.pipelines.size(), 2U);
}

// One stage is on one kind: the other is left out, which `any` allows and `all` does not.
TEST(MixedResult, ADeviceThatIsLeftOutIsNamed) {
  ResultCase c =
      mixed_answer("one stage", "llama-3.2-1b",
                   "{name: new, nodes: 1, devices_per_node: 2, device: a100-sxm-80gb}, {name: old, nodes: 1, "
                   "devices_per_node: 1, device: a40}",
                   "{sequence_length: 2048, global_batch: 64}", "limits: {pp: 1}", {"unlike pipelines", "unequal replicas"});
  for (const Finding& f : findings_of(c, c.text)) EXPECT_TRUE(f.ok) << f.name << ": " << f.text;
  const std::string any = "\"devices\": \"any\"";
  const std::size_t at = c.text.find(any);
  ASSERT_NE(at, std::string::npos);
  c.text.replace(at, any.size(), "\"devices\": \"all\"");
  std::string named;
  for (const Finding& f : findings_of(c, c.text)) named += f.ok ? "" : f.name + ": " + f.text + "\n";
  EXPECT_EQ(named, "devices: 2 of 3 devices have work, but all are required\n");
}

TEST(MixedResult, FalsifiedAnswersAreNamed) { expect_rejected(mixed_result_mutations(), mixed_results()); }

}  // namespace espalier::mutation
