// SPDX-License-Identifier: Apache-2.0
// Falsifies answers of what-if and --survive in one value each: bytes, links, seconds, horizons, nodes, plans. The
// check of answers must name it.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/document.h"
#include "espalier/adapt.h"
#include "espalier/check.h"
#include "espalier/job.h"
#include "espalier/planner.h"
#include "json_leaves.h"
#include "result_suite.h"

namespace espalier::mutation {
namespace {

struct Answer {
  std::string name, text;
};

constexpr const char* kModel =
    R"({model_type: llama, hidden_size: 512, intermediate_size: 1024, num_attention_heads: 8, num_key_value_heads: 4, num_hidden_layers: 8,
       vocab_size: 32000, max_position_embeddings: 2048, tie_word_embeddings: true})";

Job job_on(const std::string& cluster) {
  return load_job(std::string("{model: ") + kModel + ", cluster: " + cluster +
                      ", training: {sequence_length: 1024, global_batch: 64}, search: {limits: {tp: 2}}}",
                  "test", "", {})
      .value();
}

Plan plan_on(const Job& job, std::int32_t pp, ZeroStage zero) {
  Strategy s;
  s.dp = static_cast<std::int32_t>(job.cluster.devices()) / pp;
  s.zero = zero;
  s.shard = shards_optimizer(zero) ? s.dp : 1;
  Schedule schedule;
  schedule.stages = pp;
  schedule.microbatches = static_cast<std::int32_t>(job.training.global_batch / s.dp);
  return estimate(job, s, schedule).value().plan;
}

Answer ladder(const std::string& name, const Job& job, const Plan& plan, const adapt::Disturbance& what) {
  adapt::ChangeOptions options;
  options.threads = 1;
  const auto answer = adapt::what_if(job, plan, what, options);
  EXPECT_TRUE(answer.ok()) << name << ": " << (answer.ok() ? "" : answer.error().message());
  return {name, answer ? to_json(*answer, plan) : ""};
}

const std::vector<Answer>& answers() {
  static const std::vector<Answer> all = [] {
    const Job four = job_on("{nodes: 4, devices_per_node: 2, device: a100-sxm-80gb}");
    const Plan shards = plan_on(four, 1, ZeroStage::optimizer), stages = plan_on(four, 4, ZeroStage::none);
    adapt::Disturbance lost, replaced, slow, narrow;
    lost.lost = {"node:1"};
    replaced = lost;
    replaced.added = {{"a", 1}};
    slow.slow = {{"rank:3", 2.0}};
    narrow.links = {{"node:2", 0.2}};
    narrow.added = {{"a", 1}};
    adapt::ChangeOptions options;
    options.threads = 1;
    std::vector<Answer> out = {
        ladder("storage", four, shards, lost), ladder("spare", four, plan_on(four, 2, ZeroStage::none), replaced),
        ladder("slow", four, plan_on(four, 2, ZeroStage::none), slow), ladder("narrow", four, stages, narrow)};
    out.push_back({"survival", to_json(adapt::survive(four, stages, 2, options).value(), stages)});
    return out;
  }();
  return all;
}

/// Returns the findings under a recomputed digest; the old digest alone would reject all of them.
std::vector<Finding> findings_of(const std::string& mutated) {
  const std::string text = resealed(base::read_json(mutated, "answer")->root);
  const auto report = report::check_answer_to_change(text, "answer");
  if (!report) return {{"reader", false, report.error().message()}};
  return report->findings;
}

void set(Node& node, double value) {
  node.kind = NodeKind::real;
  node.real = value;
  node.text.clear();
}
void set(Node& node, std::int64_t value) {
  node.kind = NodeKind::integer;
  node.integer = value;
  node.real = static_cast<double>(value);
  node.text.clear();
}

Node* member(Node& node, const std::string& key) { return const_cast<Node*>(node.find(key)); }

/// Calls change(action) for each possible action until it returns true.
using Break = std::function<bool(Node&)>;
Break in_action(const std::string& action, const Break& change) {
  return [=](Node& root) {
    Node* actions = member(root, "actions");
    if (actions == nullptr) return false;
    for (Node& one : actions->items) {
      const Node* possible = one.find("possible");
      const Node* name = one.find("action");
      if (possible->boolean && name->text == action && change(one)) return true;
    }
    return false;
  };
}
/// Multiplies a whole number or a time of an action by a factor; returns false where it is 0 or null.
Break times(const std::string& path, double factor) {
  return [=](Node& action) {
    Node* node = value_at(action, path);
    if (node == nullptr || node->real == 0) return false;
    if (node->kind == NodeKind::integer)
      set(*node, static_cast<std::int64_t>(static_cast<double>(node->integer) * factor));
    else
      set(*node, node->real * factor);
    return true;
  };
}
/// Changes the first link whose name has this ending.
Break link(const std::string& end, const std::function<bool(Node& links, std::size_t at)>& change) {
  return [=](Node& action) {
    Node* links = member(action, "bytes_per_link");
    for (std::size_t i = 0; i < links->members.size(); ++i)
      if (links->members[i].first.ends_with(end)) return change(*links, i);
    return false;
  };
}

struct ChangeMutation {
  std::string name, finding;
  Break apply;
};

std::vector<ChangeMutation> mutations() {
  const auto halve = [](Node& links, std::size_t at) {
    set(links.members[at].second, links.members[at].second.integer / 2);
    return true;
  };
  const auto rename = [](Node& links, std::size_t at) {
    links.members[at].first = "node:0 in";
    return std::count_if(links.members.begin(), links.members.end(), [](const auto& m) { return m.first == "node:0 in"; }) == 1;
  };
  const auto remove = [](Node& links, std::size_t at) {
    links.members.erase(links.members.begin() + static_cast<std::ptrdiff_t>(at));
    return true;
  };
  return {
      {"a tenth less comes from peers", "re-place: moved-bytes", in_action("re-place", times("move.peer_bytes", 0.9))},
      {"more is kept than lies there", "re-place: moved-bytes", in_action("re-place", times("move.kept_bytes", 1.1))},
      {"a byte less is kept", "reshape: moved-bytes",
       in_action("reshape",
                 [](Node& a) {
                   Node* kept = value_at(a, "move.kept_bytes");
                   if (kept->integer == 0) return false;
                   set(*kept, kept->integer - 1);
                   return true;
                 })},
      {"shards of a lost node come from nowhere", "reshape: moved-bytes", in_action("reshape", times("move.lost_bytes", 0))},
      {"half of a checkpoint is read", "reshape: moved-bytes", in_action("reshape", times("move.storage_bytes", 0.5))},
      {"a node takes half of what it lacks", "re-place: bytes-per-link", in_action("re-place", link(" in", halve))},
      {"a node sends half of it", "re-place: bytes-per-link", in_action("re-place", link(" out", halve))},
      {"another node takes it in", "re-place: bytes-per-link", in_action("re-place", link(" in", rename))},
      {"a link is left out", "re-place: bytes-per-link", in_action("re-place", link(" in", remove))},
      {"nothing is read from storage", "reshape: bytes-per-link", in_action("reshape", link("storage", remove))},
      {"the transfer is ten times as fast as its links", "re-place: move-seconds",
       in_action("re-place", times("move.transfer_s", 0.1))},
      {"the transfer takes a hundred times as long", "re-place: move-seconds",
       in_action("re-place", times("move.transfer_s", 100))},
      {"storage is twice as fast as asked", "reshape: move-seconds", in_action("reshape", times("move.storage_s", 0.5))},
      {"no work is lost with the checkpoint", "reshape: move-seconds", in_action("reshape", times("move.rollback_s", 0))},
      {"the restart is for nothing", "re-place: move-seconds", in_action("re-place", times("move.restart_s", 0))},
      {"a pause without its transfer", "re-place: pause", in_action("re-place", times("pause_s", 0.99))},
      {"half the pause", "reshape: pause", in_action("reshape", times("pause_s", 0.5))},
      {"a horizon of half the pause", "re-place: break-even", in_action("re-place", times("break_even_s", 0.5))},
      {"a horizon a thousandth too long", "shift: break-even", in_action("shift", times("break_even_s", 1.001))},
      {"a gain that the steps do not have", "reshape: break-even", in_action("reshape", times("gain_s_per_step", 2))},
      {"a step a tenth faster", "re-place: iteration", in_action("re-place", times("iteration_s", 0.9))},
      {"a reshaped step a tenth faster", "reshape: iteration", in_action("reshape", times("iteration_s", 0.9))},
      {"nodes change places unsaid", "re-place: bytes-per-link",
       in_action("re-place",
                 [](Node& a) {
                   Node* nodes = member(a, "nodes");
                   std::swap(nodes->items[0], nodes->items[2]);  // nodes of different stages
                   return true;
                 })},
      {"a node that is gone is used", "re-place: plan",
       in_action("re-place",
                 [](Node& a) {
                   Node* nodes = member(a, "nodes");
                   bool found = false;
                   for (Node& node : nodes->items) {
                     if (node.integer != 4) continue;
                     set(node, std::int64_t{1});
                     found = true;
                   }
                   return found;
                 })},
      {"a node twice", "reshape: plan",
       in_action("reshape",
                 [](Node& a) {
                   Node* nodes = member(a, "nodes");
                   nodes->items.back() = nodes->items.front();
                   return nodes->items.size() > 1;
                 })},
      {"the new plan is left out", "reshape: plan",
       in_action("reshape",
                 [](Node& a) {
                   *member(a, "plan") = Node();
                   return true;
                 })},
      {"the slowest action is recommended", "recommendation",
       [](Node& root) {
         Node* recommended = member(root, "recommended");
         Node* actions = member(root, "actions");
         if (recommended == nullptr) return false;
         const Node* slowest = nullptr;
         for (const Node& a : actions->items)
           if (a.find("possible")->boolean &&
               (slowest == nullptr || a.find("iteration_s")->real > slowest->find("iteration_s")->real))
             slowest = &a;
         if (slowest->find("action")->text == recommended->text) return false;
         recommended->text = slowest->find("action")->text;
         return true;
       }},
      {"an action is left out", "ladder",
       [](Node& root) {
         Node* actions = member(root, "actions");
         if (actions == nullptr) return false;
         actions->items.pop_back();
         return true;
       }},
      {"a step before the change was faster", "running",
       [](Node& root) { return root.find("actions") != nullptr && times("iteration_s", 0.5)(root); }},
      {"another plan runs", "running",
       [](Node& root) {
         member(root, "plan")->text = "0123456789abcdef";
         return true;
       }},
      {"another node was lost", "re-place: plan",
       [](Node& root) {
         Node* lost = value_at(root, "change.lost[0]");
         if (lost == nullptr) return false;
         lost->text = "node:0";
         return true;
       }},
      {"losses that have no class", "coverage",
       [](Node& root) {
         Node* classes = member(root, "classes");
         if (classes == nullptr) return false;
         classes->items.pop_back();
         return true;
       }},
      {"a class that counts more losses", "coverage", [](Node& root) { return times("classes[0].losses", 3)(root); }},
  };
}

TEST(ChangeMutation, TruthfulAnswersPass) {
  for (const Answer& a : answers())
    for (const Finding& f : findings_of(a.text)) EXPECT_TRUE(f.ok) << a.name << ": " << f.name << ": " << f.text;
}

TEST(ChangeMutation, FalsifiedAnswersAreNamed) {
  for (const ChangeMutation& mutation : mutations()) {
    int applied = 0, named = 0;
    for (const Answer& a : answers()) {
      Node root = base::read_json(a.text, a.name)->root;
      if (!mutation.apply(root)) continue;
      ++applied;
      const std::vector<Finding> findings = findings_of(base::to_json(root));
      const bool broken = std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return !f.ok; });
      EXPECT_TRUE(broken) << mutation.name << " in " << a.name << " passes";
      named +=
          std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return !f.ok && f.name == mutation.finding; });
    }
    EXPECT_GT(applied, 0) << mutation.name << " applies nowhere";
    EXPECT_GT(named, 0) << mutation.name << " is never named '" << mutation.finding << "'";
  }
}

}  // namespace
}  // namespace espalier::mutation
