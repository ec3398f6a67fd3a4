// SPDX-License-Identifier: Apache-2.0
// Measures CPU seconds of the layer-wise search without the uniform one, on one thread. The model is a GPT of
// 12 to 96 equal layers on 64 and 1,024 A100 with a global batch of 512. Each run covers every pipeline depth
// and micro-batch, with memory limits from 8 to 80 GB in steps of 4 GB. The space is either that of the
// published dimensions (DP, ZeRO-3, TP, PP, full recomputation) or the whole one. Prints one JSON object a line
// with the remaining gap.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>

#include "espalier/planner.h"
#include "planner/prediction.h"
#include "planner/simulated_evaluator.h"
#include "search/layerwise.h"

namespace {

using namespace espalier;

constexpr const char* kPublished =
    "{allow: {zero: [0, 3], recompute: [none, full], sp: [none], schedule: [1f1b]}, limits: {cp: 1}}";
constexpr const char* kWhole = "{}";

struct Total {
  double seconds = 0, slowest = 0, worst_gap = 0;
  int feasible = 0, within = 0;  ///< within: gap at most 1 %
};

bool search(int layers, int nodes, const char* space, int gigabytes, Total& total) {
  const std::string text = "model: {model_type: gpt2, n_embd: 4096, n_layer: " + std::to_string(layers) +
                           ", n_head: 32, n_positions: 1024, vocab_size: 50304}\ncluster: {nodes: " + std::to_string(nodes) +
                           ", devices_per_node: 8, device: a100-sxm-80gb, memory_limit: " + std::to_string(gigabytes) +
                           "GB}\ntraining: {sequence_length: 1024, global_batch: 512}\nengine: generic\nsearch: " + space + "\n";
  const auto job = load_job(text, "job", ".", {});
  if (!job) {
    std::fprintf(stderr, "%s\n", job.error().message().c_str());
    return false;
  }
  const auto engine = planner::engine_of(*job);
  const search::Problem problem{&job->model, &job->cluster, job->training, *engine, job->search};
  planner::SimulatedEvaluator evaluator(1);
  search::LayerwiseOptions options;
  options.balance_report = false;
  const std::clock_t start = std::clock();
  const search::LayerwiseOutcome found = search::layerwise(problem, evaluator, options);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  total.seconds += seconds;
  total.slowest = std::max(total.slowest, seconds);
  if (!found.best) return true;
  const double gap = 1 - static_cast<double>(found.lower_bound_ns) / static_cast<double>(found.best->iteration_ns);
  ++total.feasible;
  total.within += gap <= 0.01 ? 1 : 0;
  total.worst_gap = std::max(total.worst_gap, gap);
  return true;
}

bool sweep(const char* name, int layers, int nodes, const char* space) {
  Total total;
  for (int gigabytes = 8; gigabytes <= 80; gigabytes += 4)
    if (!search(layers, nodes, space, gigabytes, total)) return false;
  std::printf(
      "{\"bench\": \"layerwise\", \"space\": \"%s\", \"devices\": %d, \"layers\": %d, \"limits\": 19, \"feasible\": %d, "
      "\"seconds\": %.3f, \"slowest\": %.3f, \"gap at most 1 %%\": %d, \"worst gap\": %.4f}\n",
      name, 8 * nodes, layers, total.feasible, total.seconds, total.slowest, total.within, total.worst_gap);
  std::fflush(stdout);
  return true;
}

}  // namespace

int main() {
  bool done = true;
  for (const int layers : {12, 24, 48, 96}) done = sweep("published", layers, 8, kPublished) && done;
  done = sweep("published", 96, 128, kPublished) && done;
  done = sweep("whole", 96, 8, kWhole) && done;
  return done ? 0 : 1;
}
