// SPDX-License-Identifier: Apache-2.0
// Falsifies predictions, certificates, counters, alternatives and summaries of result.json.
#include <cmath>

#include "result_suite.h"
#include "tables.h"

namespace espalier::mutation {
namespace {

Node text_node(const std::string& text) {
  Node node;
  node.kind = NodeKind::string;
  node.text = text;
  return node;
}
Node real_node(double value) {
  Node node;
  node.kind = NodeKind::real;
  node.real = value;
  return node;
}
Node integer_node(std::int64_t value) {
  Node node;
  node.kind = NodeKind::integer;
  node.integer = value;
  node.real = static_cast<double>(value);
  return node;
}
Node flag_node(bool value) {
  Node node;
  node.kind = NodeKind::boolean;
  node.boolean = value;
  return node;
}

/// Replaces the value at `path` by change(value); returns false where there is none, or where nothing changes.
std::function<bool(Node&)> at(const std::string& path, const std::function<Node(const Node&)>& change) {
  return [=](Node& root) {
    Node* node = value_at(root, path);
    if (node == nullptr) return false;
    const Node changed = change(*node);
    if (base::to_json(changed) == base::to_json(*node)) return false;
    *node = changed;
    return true;
  };
}
std::function<bool(Node&)> put(const std::string& path, const Node& value) {
  return at(path, [value](const Node&) { return value; });
}
Node scaled(const Node& n, double factor) {
  if (n.kind == NodeKind::integer) return integer_node(static_cast<std::int64_t>(std::llround(n.real * factor)));
  return real_node(n.real * factor);
}
std::function<bool(Node&)> scale(const std::string& path, double factor) {
  return at(path, [factor](const Node& n) { return scaled(n, factor); });
}
/// Changes seconds by a nanosecond and bytes by one.
std::function<bool(Node&)> nudge(const std::string& path) {
  return at(path,
            [](const Node& n) { return n.kind == NodeKind::integer ? integer_node(n.integer + 1) : real_node(n.real + 1e-9); });
}
std::function<bool(Node&)> remove(const std::string& parent, const std::string& key) {
  return [=](Node& root) {
    Node* node = parent.empty() ? &root : value_at(root, parent);
    if (node == nullptr || node->find(key) == nullptr) return false;
    std::erase_if(node->members, [&](const auto& member) { return member.first == key; });
    return true;
  };
}

/// Names a figure of the prediction and the finding that covers it.
struct Figure {
  const char* path;
  const char* finding;
};
constexpr Figure kFigures[] = {
    {"iteration_s", "iteration"},
    {"breakdown_s.compute", "breakdown"},
    {"breakdown_s.exposed_communication", "breakdown"},
    {"breakdown_s.bubble", "breakdown"},
    {"breakdown_s.optimizer", "breakdown"},
    {"breakdown_s.other", "breakdown"},
    {"hidden_communication_s", "breakdown"},
    {"peak_memory_bytes", "peak"},
    {"peak_memory_bytes_per_stage[0]", "peak"},
    {"peak_memory_bytes_per_stage[1]", "peak"},
    {"peak_memory_bytes_per_stage[3]", "peak"},
    {"memory_breakdown_bytes.parameters", "memory-breakdown"},
    {"memory_breakdown_bytes.gradients", "memory-breakdown"},
    {"memory_breakdown_bytes.optimizer", "memory-breakdown"},
    {"memory_breakdown_bytes.activations", "memory-breakdown"},
    {"memory_breakdown_bytes.communication_buffers", "memory-breakdown"},
    {"memory_breakdown_bytes.framework", "memory-breakdown"},
    {"memory_limit_bytes", "limit"},
    {"tokens_per_s_per_gpu", "throughput"},
    {"model_tflops_per_gpu", "throughput"},
    {"mfu", "throughput"},
    {"mfu_peak_tflops", "throughput"},
    {"confidence.iteration_s_low", "confidence"},
    {"confidence.iteration_s_high", "confidence"},
};

}  // namespace

std::vector<ResultMutation> figure_mutations() {
  std::vector<ResultMutation> all;
  for (const Figure& f : kFigures) {
    const std::string path = std::string("prediction.") + f.path, name = f.path;
    all.push_back({name + " is halved or doubled", f.finding, scale(path, name == "memory_limit_bytes" ? 2 : 0.5)});
    all.push_back({name + " is off by the least that can be written", f.finding, nudge(path)});
  }
  const std::vector<ResultMutation> more = {
      {"a time of nothing", "iteration", put("prediction.iteration_s", real_node(0))},
      {"a peak of nothing", "peak", put("prediction.peak_memory_bytes", integer_node(0))},
      {"a limit of a petabyte", "limit", put("prediction.memory_limit_bytes", integer_node(1'000'000'000'000'000))},
      {"fits is turned round", "limit", at("prediction.fits", [](const Node& n) { return flag_node(!n.boolean); })},
      {"a stage without a peak", "peak",
       [](Node& root) {
         Node* list = value_at(root, "prediction.peak_memory_bytes_per_stage");
         return list != nullptr && (list->items.pop_back(), true);
       }},
      {"a stage too many", "peak",
       [](Node& root) {
         Node* list = value_at(root, "prediction.peak_memory_bytes_per_stage");
         return list != nullptr && (list->items.push_back(integer_node(1)), true);
       }},
      {"parts of the time exchanged", "breakdown",
       [](Node& root) {
         Node *a = value_at(root, "prediction.breakdown_s.compute"), *b = value_at(root, "prediction.breakdown_s.optimizer");
         return a != nullptr && b != nullptr && (std::swap(*a, *b), true);
       }},
      {"a surer interval", "confidence", put("prediction.confidence.level", real_node(0.99))},
      {"an interval of measurements that were not made", "confidence",
       put("prediction.confidence.basis", text_node("1,000 runs"))},
      {"the mfu is left out", "throughput", remove("prediction", "mfu")},
      {"the peak is left out", "peak", remove("prediction", "peak_memory_bytes")},
      {"days that nobody asked for", "throughput",
       [](Node& root) {
         Node* p = value_at(root, "prediction");
         return p != nullptr && (p->members.emplace_back("days", real_node(3)), true);
       }},
      {"another engine than the plan's", "prediction", put("engine", text_node("torchtitan"))},
  };
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<ResultMutation> certificate_mutations() {
  return {
      {"the certificate is withdrawn", "certificate", put("search.optimal", flag_node(false))},
      {"a certificate is invented", "certificate",
       [](Node& root) {
         Node *gap = value_at(root, "search.gap"), *bound = value_at(root, "search.lower_bound_s");
         if (gap == nullptr || bound == nullptr) return false;
         *bound = scaled(*bound, 0.9);
         *gap = real_node(0);
         return true;
       }},
      {"a bound above the time", "certificate", scale("search.lower_bound_s", 1.01)},
      {"no bound at all", "certificate", put("search.lower_bound_s", real_node(0))},
      {"a gap that is not there", "certificate", put("search.gap", real_node(0.25))},
      {"another reason", "certificate",
       at("search.reason", [](const Node& n) { return text_node(n.text == "optimal" ? "node limit" : "optimal"); })},
      {"a runner-up that is faster than the optimum", "certificate",
       [](Node& root) {
         Node* all = value_at(root, "alternatives");
         if (all == nullptr) return false;
         const Node* optimal = value_at(root, "search.optimal");
         if (optimal == nullptr || !optimal->boolean) return false;
         for (Node& a : all->items) {
           const Node *fits = a.find("fits"), *baseline = a.find("baseline");
           if (fits == nullptr || !fits->boolean || baseline->boolean) continue;
           *value_at(a, "iteration_s") = real_node(1e-3);
           return true;
         }
         return false;
       }},
      {"a larger space", "counters", scale("search.space_size", 2)},
      {"a smaller space", "counters", scale("search.space_size", 0.5)},
      {"a dimension that counts too many", "counters",
       [](Node& root) {
         Node* d = value_at(root, "search.by_dimension.pp");
         return d != nullptr && !d->members.empty() && (d->members.front().second = scaled(d->members.front().second, 3), true);
       }},
      {"a dimension that counts nothing", "counters",
       [](Node& root) {
         Node* d = value_at(root, "search.by_dimension.tp");
         return d != nullptr && !d->members.empty() && (d->members.front().second = integer_node(0), true);
       }},
      {"no dimensions", "counters", remove("search", "by_dimension")},
      {"rules that removed more than there is", "counters",
       [](Node& root) {
         Node* p = value_at(root, "search.pruned");
         return p != nullptr && !p->members.empty() && (p->members.front().second = real_node(1e15), true);
       }},
      {"rules that removed nothing", "counters",
       [](Node& root) {
         Node* p = value_at(root, "search.pruned");
         bool any = false;
         for (auto& [rule, count] : p->members) {
           any = any || count.real > 0;
           count = integer_node(0);
         }
         return any && value_at(root, "search.simulated")->integer < value_at(root, "search.space_size")->integer;
       }},
      {"nothing was simulated", "counters", put("search.simulated", integer_node(0))},
      {"an alternative's time is halved", "alternatives", scale("alternatives[0].iteration_s", 0.5)},
      {"an alternative's time is off by a nanosecond", "alternatives", nudge("alternatives[1].iteration_s")},
      {"an alternative's peak is halved", "alternatives", scale("alternatives[0].peak_memory_bytes", 0.5)},
      {"an alternative fits otherwise", "alternatives",
       at("alternatives[0].fits", [](const Node& n) { return flag_node(!n.boolean); })},
      {"an alternative has no configuration", "alternatives",
       [](Node& root) {
         for (Node& a : value_at(root, "alternatives")->items)
           if (a.find("strategy") != nullptr)
             return std::erase_if(a.members, [](const auto& m) { return m.first == "strategy"; }) > 0;
         return false;
       }},
      {"an alternative of another schedule", "alternatives",
       [](Node& root) {
         for (Node& a : value_at(root, "alternatives")->items) {
           Node* m = value_at(a, "schedule.micro_batch");
           if (m == nullptr) continue;
           *m = integer_node(m->integer * 2);
           return true;
         }
         return false;
       }},
  };
}

std::vector<ResultMutation> document_mutations() {
  return {
      {"another model's summary", "summaries", put("plan.model.summary", text_node("llama, 32 blocks, 8.03 B parameters"))},
      {"another cluster's summary", "summaries", put("plan.cluster.summary", text_node("128 x 8 h100"))},
      {"no summary", "summaries", put("plan.model.summary", text_node(""))},
      {"another hash of the model", "reader", put("plan.model.hash", text_node("0123456789abcdef"))},
      {"another hash of the cluster", "reader", put("plan.cluster.hash", text_node("0123456789abcdef"))},
      {"a device that trains faster", "reader", put("plan.cluster.source.device", text_node("b200"))},
      {"made by another version", "made-by", put("made_by.version", text_node("0.0.1"))},
      {"made with other figures", "made-by", put("made_by.calibration", text_node("0123456789abcdef"))},
      {"made by nobody", "made-by", remove("", "made_by")},
      {"the devices of a stage twice", "reader",
       [](Node& root) {
         Node* devices = value_at(root, "plan.pipelines[0].stages[0].devices");
         if (devices == nullptr) return false;
         devices->items.push_back(devices->items.front());
         return true;
       }},
      {"expert exchanges overlapped", "reader",
       [](Node& root) {
         Node* overlap = value_at(root, "plan.pipelines[0].stages[0].layers[0].strategy.overlap");
         if (overlap == nullptr) return false;
         for (auto& [key, value] : overlap->members)
           if (key == "ep") value.boolean = true;
         return true;
       }},
      {"a plan of half the micro-batches", "reader", scale("plan.pipelines[0].schedule.microbatches", 0.5)},
      {"a plan of twice the batch", "reader", scale("plan.training.global_batch", 2)},
      {"a plan of half the sequence", "iteration", scale("plan.training.sequence_length", 0.5)},
      {"a plan of another optimizer", "peak", put("plan.training.optimizer", text_node("sgd"))},
  };
}

TEST(ResultMutation, FalsifiedFiguresAreRejected) { expect_rejected(figure_mutations()); }
TEST(ResultMutation, FalsifiedSearchesAreRejected) { expect_rejected(certificate_mutations()); }
TEST(ResultMutation, FalsifiedDocumentsAreRejected) { expect_rejected(document_mutations()); }

// The suite as a whole has at least 150 kinds over at least six plans.
TEST(Mutation, AtLeast150KindsOnSixPlans) {
  const std::size_t kinds = plan_mutations().size() + program_mutations().size() + claim_mutations().size() +
                            tied_mutations().size() + range_structure_mutations().size() + range_rule_mutations().size() +
                            range_claim_mutations().size() + figure_mutations().size() + certificate_mutations().size() +
                            document_mutations().size();
  std::printf("%d kinds\n", static_cast<int>(kinds));
  EXPECT_GE(kinds, 150U);
  EXPECT_GE(result_cases().size(), 6U);
}

}  // namespace espalier::mutation
