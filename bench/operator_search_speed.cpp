// SPDX-License-Identifier: Apache-2.0
// Measures milliseconds of the operator search on one thread: the block of OPT-6.7B and OPT-175B on 4 to 256 V100,
// four a node, at 2,048 tokens and a batch of 8. `free` has no memory cap. The cap of `capped` is half way between
// the footprint of the fastest plan and a lower bound, the sum of each operator's least memory. From 64 devices on,
// the search stops after 40 million steps. Processor time of one thread starts with the model's operators. Prints one
// JSON object a line.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>

#include "plan/engine.h"
#include "search/operator_space.h"

namespace {

using namespace espalier;
/// Returns processor time: one thread does the work, and other processes must not count.
double since(std::clock_t start) { return 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC; }

struct Measured {
  double space_ms = 1e9, search_ms = 1e9;
  solve::OperatorAnswer answer;
};

/// Returns the published milliseconds on one thread for OPT (paper, table 2).
double published_ms(int bits) {
  switch (bits) {
    case 2: return 85.3;
    case 3: return 86.5;
    case 4: return 170.9;
    case 5: return 5357.3;
    default: return 0;
  }
}

std::int64_t least_footprint(const solve::OperatorProblem& problem) {
  std::int64_t memory = 0, transient = 0;
  for (const auto& options : problem.nodes) {
    std::int64_t least = solve::kNoCapacity, least_transient = solve::kNoCapacity;
    for (const auto& o : options) {
      least = std::min(least, o.memory);
      least_transient = std::min(least_transient, o.transient);
    }
    memory += least;
    transient = std::max(transient, least_transient);
  }
  return memory + transient;
}

bool measure(const char* name, const Model& model, int bits, std::int64_t budget) {
  const auto cluster = load_cluster("{nodes: " + std::to_string(bits > 2 ? 1 << (bits - 2) : 1) +
                                        ", devices_per_node: 4, device: v100-sxm-32gb, "
                                        "inter_node: {bandwidth: 100Gb/s, nics_per_node: 1}}",
                                    "cluster");
  if (!cluster) {
    std::fprintf(stderr, "%s\n", cluster.error().message().c_str());
    return false;
  }
  Training training;
  training.sequence.main = 2048;
  training.global_batch = 8;
  training.precision = Precision::fp16;
  const cost::CostContext context(model, *cluster, training, *find_engine("megatron-lm-2021"));
  std::int64_t capacity = solve::kNoCapacity;
  for (const char* mode : {"free", "capped"}) {
    Measured best;
    const int rounds = bits <= 5 ? 5 : 1;
    for (int round = 0; round < rounds; ++round) {
      const auto start = std::clock();
      const auto space = search::BlockSpace::make(context, model.layer(1), 8, bits, {}, {});
      if (!space) {
        std::fprintf(stderr, "%s\n", space.error().message().c_str());
        return false;
      }
      const double built = since(start);
      solve::OperatorRequest request;
      request.capacity = capacity;
      request.budget = budget;
      auto answer = solve::best_operators((*space)->problem(), request);
      const double all = since(start);
      if (all < best.space_ms + best.search_ms) best = {built, all - built, std::move(answer)};
      if (round + 1 < rounds || best.answer.plans.empty()) continue;
      const auto& a = best.answer;
      std::printf(
          "{\"bench\": \"operator_search\", \"model\": \"%s\", \"devices\": %d, \"mode\": \"%s\", \"total_ms\": %.2f, "
          "\"space_ms\": %.2f, \"search_ms\": %.2f, \"published_ms\": %.1f, \"states\": %lld, \"kept\": %lld, \"labels\": %lld, "
          "\"steps\": %lld, \"certified\": %s, \"time_ms\": %.6f, \"gap\": %.6f, \"footprint_gib\": %.4f, \"plan\": \"%s\"}\n",
          name, 1 << bits, mode, best.space_ms + best.search_ms, best.space_ms, best.search_ms, published_ms(bits),
          static_cast<long long>(a.states), static_cast<long long>(a.kept), static_cast<long long>(a.labels),
          static_cast<long long>(a.steps), a.certified ? "true" : "false", static_cast<double>(a.plans[0].time) * 1e-6,
          1.0 - static_cast<double>(a.lower_bound) / static_cast<double>(a.plans[0].time),
          static_cast<double>(a.plans[0].footprint()) / (1 << 30), (*space)->text(a.plans[0]).c_str());
      std::fflush(stdout);
      capacity = (a.plans[0].footprint() + least_footprint((*space)->problem())) / 2;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string root = argc > 1 ? argv[1] : ".";
  const int most_bits = argc > 2 ? std::stoi(argv[2]) : 8;
  for (const char* name : {"opt-6.7b", "opt-175b"}) {
    const auto model = load_model_file(root + "/models/" + name + "/config.json");
    if (!model) {
      std::fprintf(stderr, "%s\n", model.error().message().c_str());
      return 1;
    }
    for (int bits = 2; bits <= most_bits; ++bits)
      if (bits != 7 && !measure(name, *model, bits, bits > 5 ? 40'000'000 : solve::kNoCapacity)) return 1;
  }
  return 0;
}
