// SPDX-License-Identifier: Apache-2.0
// Measures processor seconds of a plan on clusters with several kinds of devices, on one thread with baselines
// included. Also times the largest example on equal devices in this run for comparison, since machines differ by a
// factor of three.
//
// Two more parts follow. `threads` measures wall-clock seconds with one and two threads and checks that 1, 2, 4 and
// 8 threads give the same bytes. `rules` runs the search over device groups alone and measures the benefit of each
// of its rules.
//
// Prints one JSON object a line. The arguments are names of clusters, `threads` and `rules`; without
// arguments everything runs.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "espalier/planner.h"
#include "planner/prediction.h"
#include "planner/simulated_evaluator.h"
#include "search/device_groups.h"

namespace {

using namespace espalier;

struct Mixed {
  const char* name;
  const char* model;
  const char* cluster;
  const char* training;
};

constexpr const char* kFourKinds16 =
    "{groups: [{nodes: 16, devices_per_node: 8, device: h100-sxm-80gb}, {nodes: 16, devices_per_node: 8, device: a100-sxm-80gb},"
    " {nodes: 16, devices_per_node: 8, device: a100-sxm-40gb}, {nodes: 16, devices_per_node: 8, device: v100-sxm-32gb}],"
    " inter_group: {bandwidth: 100Gb/s, latency: 5us}}";
constexpr const char* kFourKinds32 =
    "{groups: [{nodes: 32, devices_per_node: 8, device: h100-sxm-80gb}, {nodes: 32, devices_per_node: 8, device: a100-sxm-80gb},"
    " {nodes: 32, devices_per_node: 8, device: a100-sxm-40gb}, {nodes: 32, devices_per_node: 8, device: v100-sxm-32gb}],"
    " inter_group: {bandwidth: 100Gb/s, latency: 5us}}";

constexpr std::array<Mixed, 6> kMixed = {
    {{"8 A100 + 16 V100", "llama-3-8b",
      "{groups: [{nodes: 1, devices_per_node: 8, device: a100-sxm-40gb}, {nodes: 2, devices_per_node: 8, device: v100-sxm-32gb}],"
      " inter_group: {bandwidth: 100Gb/s, latency: 5us}}",
      "{sequence_length: 4096, global_batch: 128, precision: fp16, optimizer: adam}"},
     {"4 H100 + 16 A100", "llama-2-13b",
      "{groups: [{nodes: 1, devices_per_node: 4, device: h100-sxm-80gb}, {nodes: 2, devices_per_node: 8, device: a100-sxm-40gb}],"
      " inter_group: {bandwidth: 100Gb/s, latency: 5us}}",
      "{sequence_length: 2048, global_batch: 128, precision: bf16, optimizer: adam}"},
     {"two sites, 16 + 16 A100", "llama-2-13b",
      "{groups: [{name: e, nodes: 2, devices_per_node: 8, device: a100-sxm-40gb, site: east},"
      " {name: w, nodes: 2, devices_per_node: 8, device: a100-sxm-40gb, site: west}],"
      " links: [{from: east, to: west, bandwidth: 10Gb/s, latency: 30ms, both: true}]}",
      "{sequence_length: 2048, global_batch: 128, precision: bf16, optimizer: adam}"},
     {"128 A100 + 384 V100", "llama-2-13b",
      "{groups: [{nodes: 16, devices_per_node: 8, device: a100-sxm-40gb}, {nodes: 48, devices_per_node: 8, device: "
      "v100-sxm-32gb}],"
      " inter_group: {bandwidth: 100Gb/s, latency: 5us}}",
      "{sequence_length: 2048, global_batch: 1024, precision: fp16, optimizer: adam}"},
     {"four kinds, 64 nodes", "llama-2-13b", kFourKinds16,
      "{sequence_length: 2048, global_batch: 1024, precision: fp16, optimizer: adam}"},
     {"four kinds, 128 nodes", "llama-3-70b", kFourKinds32,
      "{sequence_length: 4096, global_batch: 2048, precision: fp16, optimizer: adam}"}}};

Job job_of(const Mixed& mixed) {
  const std::string text = std::string("{model: models/") + mixed.model + "/config.json, cluster: " + mixed.cluster +
                           ", training: " + mixed.training + ", engine: generic}";
  return load_job(text, mixed.name, ".", {}).value();
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

bool measure(const std::string& name, const Job& job) {
  PlannerOptions options;
  options.threads = 1;
  const double before = cpu_seconds();
  const auto result = plan(job, options);
  const double seconds = cpu_seconds() - before;
  if (!result) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), result.error().message().c_str());
    return false;
  }
  std::printf(
      "{\"bench\": \"mixed search\", \"job\": \"%s\", \"devices\": %lld, \"cpu_s\": %.3f, \"iteration_s\": %.6f, \"gap\": "
      "%.4f}\n",
      name.c_str(), static_cast<long long>(job.cluster.devices()), seconds,
      static_cast<double>(result->prediction.iteration_ns) * 1e-9, result->search.gap);
  std::fflush(stdout);
  return true;
}

/// Fails if the number of threads changes any byte of the answer.
bool measure_threads(const std::string& name, const Job& job) {
  constexpr int kRuns = 5;
  std::string expected;
  double one = 0;
  bool same = true;
  for (const int threads : {1, 2, 4, 8}) {
    double least = 0;
    for (int run = 0; run < (threads > 2 ? 1 : kRuns); ++run) {
      PlannerOptions options;
      options.threads = threads;
      const auto begin = std::chrono::steady_clock::now();
      const auto result = plan(job, options);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      least = run == 0 ? seconds : std::min(least, seconds);
      const std::string text = result ? to_json(*result, false) : result.error().message();
      if (expected.empty()) expected = text;
      same = same && text == expected;
    }
    if (threads == 1) one = least;
    if (threads > 2) continue;  // only their bytes are compared
    std::printf("{\"bench\": \"threads\", \"job\": \"%s\", \"threads\": %d, \"wall_s\": %.3f, \"speed_up\": %.2f}\n",
                name.c_str(), threads, least, one / least);
  }
  std::printf("{\"bench\": \"threads\", \"job\": \"%s\", \"same_bytes_1_2_4_8\": %s}\n", name.c_str(), same ? "true" : "false");
  std::fflush(stdout);
  return same;
}

/// Measures the search over device groups alone, without one rule.
void measure_rule(const std::string& name, const Job& job, const char* rule, std::uint32_t without, bool cutoff) {
  search::Problem problem{&job.model, &job.cluster, job.training, *planner::engine_of(job), job.search};
  planner::SimulatedEvaluator evaluator(1);
  search::DeviceGroupsOptions how;
  how.without = without;
  how.cutoff = cutoff;
  const double before = cpu_seconds();
  const search::GroupedOutcome found = search::device_groups(problem, evaluator, how);
  const double seconds = cpu_seconds() - before;
  const auto best = static_cast<double>(found.best ? found.best->iteration_ns : 0);
  std::printf(
      "{\"bench\": \"rules\", \"job\": \"%s\", \"without\": \"%s\", \"cpu_s\": %.3f, \"states\": %lld, \"tried\": %lld, "
      "\"candidates\": %lld, \"simulated\": %lld, \"iteration_s\": %.6f, \"gap\": %.4f}\n",
      name.c_str(), rule, seconds, static_cast<long long>(found.bounded), static_cast<long long>(found.tried),
      static_cast<long long>(found.candidates), static_cast<long long>(found.simulations), best * 1e-9,
      best > 0 ? 1 - static_cast<double>(found.lower_bound_ns) / best : 0.0);
  std::fflush(stdout);
}

void measure_rules(const std::string& name, const Job& job) {
  const auto bit = [](solve::GroupRule rule) { return static_cast<std::uint32_t>(rule); };
  measure_rule(name, job, "", 0, true);
  measure_rule(name, job, "options", bit(solve::GroupRule::options), true);
  measure_rule(name, job, "room", bit(solve::GroupRule::room), true);
  measure_rule(name, job, "work", bit(solve::GroupRule::work), true);
  measure_rule(name, job, "labels", bit(solve::GroupRule::labels), true);
  measure_rule(name, job, "cutoff and first look", 0, false);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> asked(argv + 1, argv + argc);
  const auto wanted = [&](const std::string& name) {
    return asked.empty() || std::find(asked.begin(), asked.end(), name) != asked.end();
  };
  bool good = true;
  if (asked.empty()) {
    const auto equal = load_job_file("examples/llama3.1-405b-on-16384xh100.yaml", {});
    if (!equal) {
      std::fprintf(stderr, "%s\n(run it in the repository root: ./dev bench speed)\n", equal.error().message().c_str());
      return 2;
    }
    good = measure("llama3.1-405b-on-16384xh100", *equal);
  }
  for (const Mixed& mixed : kMixed)
    if (wanted(mixed.name)) good = measure(mixed.name, job_of(mixed)) && good;
  if (wanted("threads"))
    for (std::size_t i = 0; i < 5; ++i) good = measure_threads(kMixed[i].name, job_of(kMixed[i])) && good;
  if (wanted("rules"))
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) measure_rules(kMixed[i].name, job_of(kMixed[i]));
  return good ? 0 : 1;
}
