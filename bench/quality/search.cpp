// SPDX-License-Identifier: Apache-2.0
// Checks the search on real models. There are thirteen, each on a stated part of the space with at most 20,000
// configurations. Branch and bound must give the plan that simulating every configuration gives: the same plan
// document, the same nanosecond. This must also hold with each pruning rule switched off. Prints one JSON object a
// line; exit code 1 on any difference.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "espalier/planner.h"
#include "search/pruning.h"

namespace {

using namespace espalier;

constexpr double kMostConfigurations = 20000;

struct Case {
  const char* name;
  const char* model;
  const char* cluster;  ///< as in a job file
  const char* training;
  const char* search;  ///< part of the space, as in a job file
};

// Device kinds, fabrics, families, batch sizes and restrictions differ on purpose; together the cases
// vary every dimension.
const std::vector<Case> kCases = {
    {"llama-3-8b", "llama-3-8b", "{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}",
     "{sequence_length: 8192, global_batch: 32}",
     "{allow: {micro_batch: [1, 2], recompute: [none, selective]}, forbid: {schedule: [gpipe]}, limits: {pp: 4, vpp: 2, cp: 2}}"},
    {"llama-2-70b", "llama-2-70b", "{nodes: 8, devices_per_node: 8, device: h100-sxm-80gb}",
     "{sequence_length: 4096, global_batch: 64}",
     "{allow: {tp: [4, 8], sp: [megatron], micro_batch: [1], recompute: [none, selective], order: [tp-cp-dp-pp]}, "
     "forbid: {zero: [2]}, limits: {pp: 8, vpp: 5, cp: 2}}"},
    {"mixtral-8x7b", "mixtral-8x7b", "{nodes: 4, devices_per_node: 8, device: a100-sxm-80gb}",
     "{sequence_length: 4096, global_batch: 64}",
     "{allow: {tp: [1, 2], ep: [2, 4, 8], micro_batch: [1, 2], recompute: [none, selective], overlap_p2p: [true], overlap_grad: "
     "[true]}, "
     "forbid: {schedule: [gpipe, interleaved]}, limits: {pp: 4, cp: 1}}"},
    {"qwen2.5-7b on a slow network", "qwen2.5-7b",
     "{nodes: 4, devices_per_node: 8, device: l40s, inter_node: {bandwidth: 25Gb/s, nics_per_node: 1, latency: 20us}}",
     "{sequence_length: 4096, global_batch: 64}",
     "{allow: {micro_batch: [1, 2], order: [tp-cp-dp-pp, tp-cp-pp-dp], overlap_grad: [true], overlap_param: [true]}, "
     "limits: {tp: 4, pp: 8, vpp: 2, cp: 1, recompute_layers: 2}}"},
    {"qwen3-30b-a3b", "qwen3-30b-a3b", "{nodes: 2, devices_per_node: 8, device: h200-sxm}",
     "{sequence_length: 4096, global_batch: 32}",
     "{allow: {ep: [8, 16], micro_batch: [1, 2], recompute: [none, selective], overlap_grad: [true]}, forbid: {zero: [2], order: "
     "[tp-cp-pp-dp]}, "
     "limits: {tp: 2, pp: 2, vpp: 3, cp: 2}}"},
    {"gpt2", "gpt2", "{nodes: 1, devices_per_node: 4, device: rtx-4090}", "{sequence_length: 1024, global_batch: 32}",
     "{limits: {micro_batch: 8, vpp: 3, recompute_layers: 2}}"},
    {"bert-large", "bert-large-uncased", "{nodes: 1, devices_per_node: 8, device: v100-sxm-16gb}",
     "{sequence_length: 512, global_batch: 64, precision: fp16}",
     "{allow: {micro_batch: [4, 8, 16], recompute: [none, full]}, limits: {tp: 4, pp: 4, vpp: 2, cp: 1, recompute_layers: 2}}"},
    {"t5-base, two sequence lengths", "t5-base", "{nodes: 1, devices_per_node: 8, device: a100-sxm-40gb}",
     "{sequence_length: {encoder: 512, decoder: 128}, global_batch: 64}",
     "{allow: {micro_batch: [4, 8]}, limits: {pp: 4, vpp: 3, recompute_layers: 2}}"},
    {"vit-base", "vit-base-patch16-224", "{nodes: 1, devices_per_node: 8, device: a100-sxm-40gb}", "{global_batch: 128}",
     "{allow: {micro_batch: [8, 16, 32]}, limits: {pp: 4, vpp: 2, recompute_layers: 3}}"},
    {"swin-base, unequal layers", "swin-base", "{nodes: 1, devices_per_node: 8, device: titan-rtx}",
     "{global_batch: 128, precision: fp16}", "{allow: {micro_batch: [4, 8, 16]}, limits: {pp: 8, vpp: 2, recompute_layers: 3}}"},
    {"gemma-2-9b, tied", "gemma-2-9b", "{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb}",
     "{sequence_length: 4096, global_batch: 32}",
     "{allow: {micro_batch: [1, 2], recompute: [none, full], overlap_tp: [false, true], sp: [none, megatron]}, forbid: "
     "{schedule: [gpipe]}, "
     "limits: {tp: 4, pp: 4, vpp: 2, cp: 1, recompute_layers: 2}}"},
    {"deepseek-v3", "deepseek-v3", "{nodes: 128, devices_per_node: 8, device: h100-sxm-80gb}",
     "{sequence_length: 4096, global_batch: 1024}",
     "{allow: {pp: [8, 16], ep: [32, 64], micro_batch: [1, 2], overlap_grad: [true], overlap_p2p: [true], "
     "schedule: [1f1b, zb-h1, zb-v], zero: [1, 2]}, limits: {tp: 2, cp: 1, recompute_layers: 2}}"},
    {"llama-2-7b, engine megatron-core", "llama-2-7b", "{nodes: 4, devices_per_node: 8, device: v100-sxm-32gb}",
     "{sequence_length: 4096, global_batch: 64, precision: fp16}",
     "{allow: {micro_batch: [1, 2], overlap_grad: [true]}, limits: {vpp: 4, cp: 2, recompute_layers: 4}}"},
};

struct Timed {
  Result<PlannerResult> result;
  double seconds;
};

Timed timed(const Job& job, const PlannerOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Result<PlannerResult> result = plan(job, options);
  return {std::move(result), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

/// Returns the whole answer as text: the plan document and its time, or the reason why there is none.
std::string answer(const Result<PlannerResult>& r) {
  if (!r) return r.error().found;
  return std::to_string(r->prediction.iteration_ns) + " ns\n" + to_json(r->plan);
}

std::string quoted(std::string text) {
  for (std::size_t i = 0; (i = text.find('"', i)) != std::string::npos; i += 2) text.insert(i, 1, '\\');
  return "\"" + text + "\"";
}

int differences(const Job& job, const std::string& reference) {
  int different = 0;
  for (const auto& rule : search::pruning_rules()) {
    PlannerOptions options;
    options.disabled_rules = {std::string(rule.name)};
    if (answer(plan(job, options)) == reference) continue;
    ++different;
    std::fprintf(stderr, "without rule %s the answer differs\n", std::string(rule.name).c_str());
  }
  return different;
}

bool compare(const Case& c) {
  const std::string engine = std::string(c.name).find("megatron-core") == std::string::npos ? "generic" : "megatron-core";
  const std::string text = std::string("model: models/") + c.model + "/config.json\ncluster: " + c.cluster +
                           "\ntraining: " + c.training + "\nengine: " + engine + "\nsearch: " + c.search + "\n";
  const auto job = load_job(text, c.name, ".", {});
  if (!job) {
    std::fprintf(stderr, "%s\n(run it in the repository root: ./dev bench quality)\n", job.error().message().c_str());
    return false;
  }
  PlannerOptions all;
  all.exhaustive = true;
  const Timed clever = timed(*job, {});
  if (clever.result && clever.result->search.space_size > kMostConfigurations) {
    std::fprintf(stderr, "%s: %.0f configurations, more than %.0f\n", c.name, clever.result->search.space_size,
                 kMostConfigurations);
    return false;
  }
  const Timed reference = timed(*job, all);
  const std::string expected = answer(reference.result);
  const bool equal = answer(clever.result) == expected;
  if (!equal)
    std::fprintf(stderr, "%s\nexhaustive: %s\nbranch and bound: %s\n", c.name, expected.c_str(), answer(clever.result).c_str());
  const int different = differences(*job, expected);
  const PlannerResult* r = clever.result ? &clever.result.value() : nullptr;
  std::printf(
      "{\"bench\": \"quality\", \"case\": %s, \"devices\": %lld, \"search\": %s, \"configurations\": %.0f, "
      "\"simulated_by_search\": %lld, "
      "\"simulated_in_all\": %lld, \"iteration_s\": %.9f, \"plan\": %s, \"equal\": %s, \"rules_that_change_it\": %d, "
      "\"search_s\": %.3f, \"exhaustive_s\": %.3f}\n",
      quoted(c.name).c_str(), static_cast<long long>(job->cluster.devices()), quoted(c.search).c_str(),
      r ? r->search.space_size : 0.0, r ? static_cast<long long>(r->search.simulated) : 0LL,
      reference.result ? static_cast<long long>(reference.result->search.simulated) : 0LL,
      r ? static_cast<double>(r->prediction.iteration_ns) * 1e-9 : 0.0, quoted(r ? r->plan.label() : "none fits").c_str(),
      equal ? "true" : "false", different, clever.seconds, reference.seconds);
  std::fflush(stdout);
  return equal && different == 0 && r != nullptr;
}

}  // namespace

int main() {
  int equal = 0;
  for (const Case& c : kCases) equal += compare(c);
  std::printf("{\"bench\": \"quality\", \"cases\": %zu, \"equal\": %d}\n", kCases.size(), equal);
  return equal == static_cast<int>(kCases.size()) ? 0 : 1;
}
