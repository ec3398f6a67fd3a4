// SPDX-License-Identifier: Apache-2.0
// Compares with figure 10 of PrimePar: 3-D parallelism (p, d, m) on 32 V100, batch 16, sequence 2,048. Step times are
// speeds relative to Megatron-style tensor parallelism at (2, 1, 16) (Llama 2 70B: (2, 2, 8)). One variant has one
// strategy for all layers, the other partitions operators within the tensor group. Fixed are d, 1F1B, no sequence
// parallelism, and ZeRO 0 or 1. The large models have eight blocks, since the paper does not state how many it kept.
// Prints one JSON object a line; exit code 1 if partitions make a point slower.
#include <cstdio>
#include <string>
#include <vector>

#include "espalier/planner.h"

namespace {

using namespace espalier;

struct Point {
  int p, d, m;
};
const std::vector<Point> kPoints = {{2, 1, 16}, {2, 2, 8}, {2, 4, 4}, {4, 1, 8}, {4, 2, 4}, {8, 1, 4}};

struct Subject {
  const char* name;
  const char* model;                       ///< as in a job file
  std::size_t base;                        ///< point that the others are relative to
  std::vector<double> megatron, primepar;  ///< published; 0: none
};

const std::vector<Subject> kSubjects = {
    {"opt-6.7b", "models/opt-6.7b/config.json", 0, {1.00, 1.31, 1.87, 1.21, 1.56, 1.40}, {1.24, 1.72, 1.88, 1.60, 1.57, 1.42}},
    {"opt-175b, 8 blocks",
     "{model_type: opt, hidden_size: 12288, num_attention_heads: 96, ffn_dim: 49152, num_hidden_layers: 8, vocab_size: 50272, "
     "max_position_embeddings: 2048, word_embed_proj_dim: 12288}",
     0,
     {1.00, .94, .66, .87, .55, .50},
     {1.46, 1.16, .68, 1.08, .56, .51}},
    {"llama-2-7b",
     "models/llama-2-7b/config.json",
     0,
     {1.00, 1.25, 1.87, 1.16, 1.56, 1.41},
     {1.47, 1.72, 1.89, 1.60, 1.57, 1.42}},
    {"llama-2-70b, 8 blocks",
     "{model_type: llama, hidden_size: 8192, num_attention_heads: 64, num_key_value_heads: 8, intermediate_size: 28672, "
     "num_hidden_layers: 8, vocab_size: 32000, max_position_embeddings: 4096, rms_norm_eps: 1.0e-5, tie_word_embeddings: false}",
     1,
     {0, 1.00, .87, .93, .72, .65},
     {1.25, 1.27, .91, 1.17, .76, .69}},
};

double seconds(const Subject& s, const Point& at, const char* space) {
  const std::string text =
      std::string("model: ") + s.model +
      "\ncluster: {nodes: 8, devices_per_node: 4, device: v100-sxm-32gb, inter_node: {bandwidth: 100Gb/s, nics_per_node: 1}}\n"
      "training: {sequence_length: 2048, global_batch: 16, precision: fp16}\nsearch: {space: " +
      space + ", fix: {pp: " + std::to_string(at.p) + ", dp: " + std::to_string(at.d) + ", tp: " + std::to_string(at.m) +
      ", sp: none, cp: 1, schedule: 1f1b}, allow: {zero: [0, 1]}}\n";
  const auto job = load_job(text, s.name, ".", {});
  if (!job) {
    std::fprintf(stderr, "%s\n", job.error().message().c_str());
    return -1;
  }
  const auto answer = plan(*job, {});
  return answer ? static_cast<double>(answer->prediction.iteration_ns) * 1e-9 : 0;
}

}  // namespace

int main() {
  bool sound = true;
  for (const Subject& s : kSubjects) {
    const double base = seconds(s, kPoints[s.base], "uniform");
    for (std::size_t i = 0; i < kPoints.size(); ++i) {
      const double plain = seconds(s, kPoints[i], "uniform"), operators = seconds(s, kPoints[i], "spatial_temporal");
      if (plain < 0 || operators < 0) return 1;
      sound = sound && (plain == 0 || (operators > 0 && operators <= plain));
      std::printf(
          "{\"bench\": \"primepar_3d\", \"model\": \"%s\", \"p\": %d, \"d\": %d, \"m\": %d, \"megatron\": %.2f, \"operators\": "
          "%.2f, "
          "\"published megatron\": %.2f, \"published primepar\": %.2f, \"megatron_s\": %.4f, \"operators_s\": %.4f}\n",
          s.name, kPoints[i].p, kPoints[i].d, kPoints[i].m, plain > 0 ? base / plain : 0, operators > 0 ? base / operators : 0,
          s.megatron[i], s.primepar[i], plain, operators);
      std::fflush(stdout);
    }
  }
  return sound ? 0 : 1;
}
