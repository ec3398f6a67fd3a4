// SPDX-License-Identifier: Apache-2.0
// Attacks certified answers of the search, on at least twenty problems of real models. Each gets 5,000 random legal
// configurations and walks from the optimum over all its neighbours. None that fits may be faster than the certified
// optimum. Then layer-wise and full answers are perturbed 100,000 times in total. No plan of their space may be
// faster than the bound. No single change of a layer's strategy or of a boundary may beat an answer by more than 0.1
// %. The search's own simulator judges everything. Prints one JSON object a line; exit code 1 on a violation.
//
//   espalier_bench_quality_attack [--brief] [PROBLEM…]
//     --brief   a tenth of everything
//     PROBLEM   only names that contain one of the words
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "attack_layered.h"
#include "attack_uniform.h"
#include "plan/engine.h"
#include "planner/prediction.h"
#include "search/partition_choices.h"

namespace {

using namespace espalier;

constexpr int kWalks = 4, kSteps = 12;
constexpr double kGrain = 0.001;  // largest gain allowed for a single change

struct Subject {
  const char* name;
  const char* model;     ///< folder below models/
  const char* cluster;   ///< as in a job file
  const char* training;  ///< as in a job file
  const char* search;    ///< restriction of the space, as in a job file without the braces
};

// The subjects cover dense models, mixture of experts, tied tables, encoder-decoder, vision, context parallelism,
// long sequences and little memory, each small and large.
const std::vector<Subject> kSubjects = {
    {"llama-3-8b", "llama-3-8b", "{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}",
     "{sequence_length: 8192, global_batch: 32}", ""},
    {"llama-3-8b, long sequence", "llama-3-8b", "{nodes: 4, devices_per_node: 8, device: h100-sxm-80gb}",
     "{sequence_length: 131072, global_batch: 8}", ""},
    {"llama-3-8b, little memory", "llama-3-8b", "{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb, memory_limit: 24GiB}",
     "{sequence_length: 4096, global_batch: 32}", ""},
    {"llama-3-8b, gpipe", "llama-3-8b", "{nodes: 1, devices_per_node: 8, device: a100-sxm-80gb}",
     "{sequence_length: 4096, global_batch: 32}", "fix: {schedule: gpipe, pp: 4}"},
    {"llama-3-8b, zb-v", "llama-3-8b", "{nodes: 1, devices_per_node: 8, device: a100-sxm-80gb}",
     "{sequence_length: 4096, global_batch: 32}", "fix: {schedule: zb-v, pp: 4}"},
    {"llama-3-8b, interleaved", "llama-3-8b", "{nodes: 1, devices_per_node: 8, device: a100-sxm-80gb}",
     "{sequence_length: 4096, global_batch: 32}", "fix: {schedule: interleaved, pp: 4}, limits: {vpp: 4}"},
    {"llama-2-70b", "llama-2-70b", "{nodes: 8, devices_per_node: 8, device: h100-sxm-80gb}",
     "{sequence_length: 4096, global_batch: 64}", "limits: {pp: 16}"},
    {"llama-3-70b, 32k", "llama-3-70b", "{nodes: 8, devices_per_node: 8, device: h100-sxm-80gb}",
     "{sequence_length: 32768, global_batch: 16}", "limits: {pp: 16}"},
    {"mixtral-8x7b", "mixtral-8x7b", "{nodes: 4, devices_per_node: 8, device: a100-sxm-80gb}",
     "{sequence_length: 4096, global_batch: 64}", "limits: {pp: 8}"},
    {"qwen2.5-7b, slow network", "qwen2.5-7b",
     "{nodes: 4, devices_per_node: 8, device: l40s, inter_node: {bandwidth: 25Gb/s, nics_per_node: 1, latency: 20us}}",
     "{sequence_length: 4096, global_batch: 64}", "limits: {pp: 8}"},
    {"qwen3-30b-a3b", "qwen3-30b-a3b", "{nodes: 2, devices_per_node: 8, device: h200-sxm}",
     "{sequence_length: 4096, global_batch: 32}", "limits: {pp: 8}"},
    {"gpt2, tied", "gpt2", "{nodes: 1, devices_per_node: 4, device: rtx-4090}", "{sequence_length: 1024, global_batch: 32}", ""},
    {"gpt2, zb-v", "gpt2", "{nodes: 1, devices_per_node: 4, device: rtx-4090}", "{sequence_length: 1024, global_batch: 64}",
     "fix: {schedule: zb-v, pp: 4}"},
    {"bert-large", "bert-large-uncased", "{nodes: 1, devices_per_node: 8, device: v100-sxm-16gb}",
     "{sequence_length: 512, global_batch: 256, precision: fp16}", ""},
    {"t5-base, two sequences", "t5-base", "{nodes: 1, devices_per_node: 8, device: a100-sxm-40gb}",
     "{sequence_length: {encoder: 512, decoder: 128}, global_batch: 64}", ""},
    {"t5-base, pipeline", "t5-base", "{nodes: 1, devices_per_node: 8, device: titan-rtx}",
     "{sequence_length: {encoder: 512, decoder: 128}, global_batch: 64, precision: fp16}", "fix: {pp: 4}"},
    {"vit-base", "vit-base-patch16-224", "{nodes: 1, devices_per_node: 8, device: a100-sxm-40gb}", "{global_batch: 512}", ""},
    {"swin-base", "swin-base", "{nodes: 1, devices_per_node: 8, device: titan-rtx}", "{global_batch: 256, precision: fp16}", ""},
    {"swin-base, pipeline", "swin-base", "{nodes: 1, devices_per_node: 8, device: titan-rtx}",
     "{global_batch: 128, precision: fp16}", "fix: {pp: 4}"},
    {"gemma-2-9b, tied", "gemma-2-9b", "{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb}",
     "{sequence_length: 4096, global_batch: 32}", ""},
    {"gemma-2-9b, little memory", "gemma-2-9b", "{nodes: 1, devices_per_node: 8, device: a100-sxm-40gb, memory_limit: 30GiB}",
     "{sequence_length: 4096, global_batch: 32}", "fix: {pp: 4}"},
    {"deepseek-v3", "deepseek-v3", "{nodes: 32, devices_per_node: 8, device: h200-sxm}",
     "{sequence_length: 4096, global_batch: 256}", "allow: {pp: [8, 16], micro_batch: [1, 2]}, limits: {tp: 4, cp: 1}"},
};

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

struct Attacked {
  int violations = 0;
  std::int64_t configurations = 0, perturbations = 0, singles = 0;
};

Result<Job> job_of(const Subject& s, const std::string& space) {
  const std::string restriction = *s.search != '\0' ? std::string(", ") + s.search : "";
  auto job = load_job(std::string("model: models/") + s.model + "/config.json\ncluster: " + s.cluster +
                          "\ntraining: " + s.training + "\nengine: generic\nsearch: {space: " + space + restriction + "}\n",
                      s.name, ".", {});
  // The attack and the answer that it attacks may both use all of the memory.
  if (job) job->search.memory_margin = 0;
  return job;
}

search::Problem problem_of(const Job& job, const EngineModel& engine) {
  return {&job.model, &job.cluster, job.training, &engine, job.search};
}

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void attack_uniform(const Subject& s, std::int64_t count, std::uint64_t seed, Attacked& all) {
  const auto start = std::chrono::steady_clock::now();
  const auto job = job_of(s, "uniform");
  if (!job) {
    std::fprintf(stderr, "%s\n(run it in the repository root: ./dev bench quality)\n", job.error().message().c_str());
    ++all.violations;
    return;
  }
  const auto answer = plan(*job, {});
  if (!answer) {
    std::fprintf(stderr, "%s: %s\n", s.name, answer.error().message().c_str());
    ++all.violations;
    return;
  }
  const auto engine = planner::engine_of(*job);
  const search::Problem problem = problem_of(*job, **engine);
  property::UniformAttack attack(problem, answer->search.lower_bound_ns, seed);
  attack.random_configurations(count);
  for (int walk = 0; walk < kWalks; ++walk) attack.walk({answer->plan.strategy(), answer->plan.only_pipeline().schedule}, kSteps);
  const property::AttackTally& t = attack.tally();
  const bool broken = t.faster > 0 || !answer->search.optimal;
  std::printf(
      "{\"bench\": \"attack\", \"space\": \"uniform\", \"problem\": %s, \"configurations\": %.0f, \"tried\": %lld, \"fit\": "
      "%lld, "
      "\"iteration_s\": %.9f, \"faster\": %lld, \"optimal\": %s, \"seconds\": %.1f}\n",
      quoted(s.name).c_str(), answer->search.space_size, static_cast<long long>(t.tried), static_cast<long long>(t.fit),
      static_cast<double>(answer->prediction.iteration_ns) * 1e-9, static_cast<long long>(t.faster),
      answer->search.optimal ? "true" : "false", since(start));
  std::fflush(stdout);
  if (t.faster > 0) std::fprintf(stderr, "%s: %s\n", s.name, t.worst.c_str());
  all.configurations += t.tried;
  all.violations += broken ? 1 : 0;
}

/// Returns the single changes of a layer-wise answer that its search did not try; −1 for other answers.
long long left_by_refinement(const SearchSummary& search) {
  if (!covers_layers(search)) return -1;
  return search.count(SearchCounter::refinement_left, {kLayersPhase, kOperatorsByLayerPhase});
}

void attack_layers(const Subject& s, const char* space, std::int64_t count, std::int64_t singles, std::uint64_t seed,
                   Attacked& all) {
  const auto start = std::chrono::steady_clock::now();
  const auto job = job_of(s, space);
  const auto answer = job ? plan(*job, {}) : Result<PlannerResult>(job.error());
  if (!answer) {
    std::fprintf(stderr, "%s: %s\n", s.name, answer.error().message().c_str());
    ++all.violations;
    return;
  }
  const double search_s = since(start);
  const auto engine = planner::engine_of(*job);
  search::Problem problem = problem_of(*job, **engine);
  search::PartitionChoices choices;
  if (job->search.kind == SpaceKind::full) choices = search::partition_choices(problem, {});
  if (job->search.kind == SpaceKind::full) problem.partitions = &choices;
  property::LayeredAttack attack(problem, answer->plan, answer->prediction.iteration_ns, answer->search.lower_bound_ns, seed);
  const bool held = attack.holds_answer();
  if (held) attack.perturb(count);
  if (held) attack.singles(singles);
  const property::AttackTally& t = attack.tally();
  const bool broken = t.faster > 0 || attack.best_single() > kGrain;
  std::printf(
      "{\"bench\": \"attack\", \"space\": \"%s\", \"problem\": %s, \"plan\": %s, \"in_space\": %s, \"tried\": %lld, \"fit\": "
      "%lld, "
      "\"below_bound\": %lld, \"gap\": %.5f, \"singles\": %lld, \"single_changes\": %lld, \"best_single\": %.6f, "
      "\"best_of_all\": %.6f, \"refinement_left\": %lld, \"search_s\": %.2f, \"seconds\": %.1f}\n",
      space, quoted(s.name).c_str(), quoted(answer->plan.label()).c_str(), held ? "true" : "false",
      static_cast<long long>(t.tried), static_cast<long long>(t.fit), static_cast<long long>(t.faster), answer->search.gap,
      static_cast<long long>(attack.singles_tried()), static_cast<long long>(attack.single_changes()), attack.best_single(),
      attack.best_of_all(), left_by_refinement(answer->search), search_s, since(start));
  std::fflush(stdout);
  if (t.faster > 0) std::fprintf(stderr, "%s: %s\n", s.name, t.worst.c_str());
  if (attack.best_single() > kGrain) std::fprintf(stderr, "%s: %s\n", s.name, attack.best_single_text().c_str());
  all.perturbations += t.tried - attack.singles_tried();
  all.singles += attack.singles_tried();
  all.violations += broken ? 1 : 0;
}

bool wanted(const Subject& s, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    if (std::string(s.name).find(word) != std::string::npos) return true;
  return words.empty();
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t scale = 10;
  std::vector<std::string> words;
  bool uniform = true, layered = true;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--brief") == 0)
      scale = 1;
    else if (std::strcmp(argv[i], "--uniform") == 0)
      layered = false;
    else if (std::strcmp(argv[i], "--layered") == 0)
      uniform = false;
    else
      words.emplace_back(argv[i]);
  }
  Attacked all;
  std::uint64_t seed = 1;
  int problems = 0;
  for (const Subject& s : kSubjects) {
    if (!wanted(s, words)) continue;
    ++problems;
    if (uniform) attack_uniform(s, 500 * scale, seed++, all);
    if (layered) attack_layers(s, "layerwise", 450 * scale, 200 * scale, seed++, all);
  }
  // Operator partitions apply to dense blocks only.
  for (const char* name : {"llama-3-8b", "bert-large", "vit-base"})
    for (const Subject& s : kSubjects)
      if (layered && name == std::string(s.name) && wanted(s, words))
        attack_layers(s, "full", 450 * scale, 200 * scale, seed++, all);
  std::printf(
      "{\"bench\": \"attack\", \"problems\": %d, \"configurations\": %lld, \"perturbations\": %lld, \"singles\": %lld, "
      "\"violations\": %d}\n",
      problems, static_cast<long long>(all.configurations), static_cast<long long>(all.perturbations),
      static_cast<long long>(all.singles), all.violations);
  return all.violations == 0 ? 0 : 1;
}
