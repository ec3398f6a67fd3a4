// SPDX-License-Identifier: Apache-2.0
// Measures the gain of layer-wise plans. Compares simulated step times of the layer-wise answer with the best uniform
// plan, DDP, FSDP and Megatron 3-D. The models are those of Galvatron's papers, on 8 and 16 TITAN RTX (PCIe) at 8,
// 12, 16 and 20 GB and on 64 A100. Also compares stage balance with the even split on imbalanced models. Prints one
// JSON object a line; exit code 1 if a layer-wise answer is slower than a uniform one.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "espalier/planner.h"

namespace {

using namespace espalier;

struct Subject {
  const char* name;
  const char* config;    ///< as in config.json
  const char* sequence;  ///< as in a job file; empty for images
  int batch_per_device;
};

const std::vector<Subject> kModels = {
    {"bert-huge-32",
     "{model_type: bert, hidden_size: 1280, num_hidden_layers: 32, num_attention_heads: 20, intermediate_size: 5120, vocab_size: "
     "30522, max_position_embeddings: 512, type_vocab_size: 2}",
     "sequence_length: 512, ", 32},
    {"vit-huge-32",
     "{model_type: vit, hidden_size: 1280, num_hidden_layers: 32, num_attention_heads: 16, intermediate_size: 5120, image_size: "
     "224, "
     "patch_size: 16, num_channels: 3, num_labels: 1000}",
     "", 128},
    {"t5-large-32",
     "{model_type: t5, d_model: 1024, num_layers: 16, num_decoder_layers: 16, num_heads: 16, d_kv: 64, d_ff: 4096, vocab_size: "
     "32128}",
     "sequence_length: {encoder: 512, decoder: 512}, ", 32},
    {"swin-huge-32",
     "{model_type: swin, embed_dim: 320, hidden_size: 2560, depths: [2, 2, 26, 2], num_heads: [10, 20, 40, 80], window_size: 7, "
     "image_size: 224, patch_size: 4, mlp_ratio: 4.0, num_channels: 3, num_labels: 1000}",
     "", 64},
};

const std::vector<Subject> kImbalanced = {
    {"t5-512/4",
     "{model_type: t5, d_model: 1024, num_layers: 16, num_decoder_layers: 16, num_heads: 16, d_kv: 64, d_ff: 4096, vocab_size: "
     "32128}",
     "sequence_length: {encoder: 512, decoder: 4}, ", 8},
    {"gpt, vocabulary 256k", "{model_type: gpt2, n_embd: 2048, n_layer: 24, n_head: 16, n_positions: 1024, vocab_size: 256000}",
     "sequence_length: 1024, ", 8},
    {"swin-huge-32",
     "{model_type: swin, embed_dim: 320, hidden_size: 2560, depths: [2, 2, 26, 2], num_heads: [10, 20, 40, 80], window_size: 7, "
     "image_size: 224, patch_size: 4, mlp_ratio: 4.0, num_channels: 3, num_labels: 1000}",
     "", 16},
};

std::string cluster_text(const char* device, int nodes, const std::string& limit) {
  std::string text = "{nodes: " + std::to_string(nodes) + ", devices_per_node: 8, device: " + device;
  if (!limit.empty()) text += ", memory_limit: " + limit;
  return text + "}";
}

Result<PlannerResult> answer(const Subject& m, const std::string& cluster, int devices, const std::string& search) {
  const std::string text = std::string("model: ") + m.config + "\ncluster: " + cluster + "\ntraining: {" + m.sequence +
                           "global_batch: " + std::to_string(m.batch_per_device * devices) +
                           ", precision: fp16}\nengine: generic\nsearch: " + search + "\n";
  auto job = load_job(text, m.name, ".", {});
  if (!job) return job.error();
  return plan(*job, {});
}

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

bool gains(const Subject& m, const char* device, int nodes, const std::string& limit) {
  const auto r = answer(m, cluster_text(device, nodes, limit), 8 * nodes, "{space: layerwise}");
  std::printf("{\"bench\": \"layerwise\", \"model\": \"%s\", \"devices\": %d, \"device\": \"%s\", \"limit\": \"%s\"", m.name,
              8 * nodes, device, limit.c_str());
  if (!r) {
    std::printf(", \"infeasible\": true}\n");
    return r.error().kind == ErrorKind::infeasible;
  }
  const std::int64_t ns = r->prediction.iteration_ns, uniform = best_uniform_ns(r->search);
  std::printf(", \"layerwise_s\": %.6f, \"uniform_s\": %.6f", seconds(ns), seconds(uniform));
  for (const Alternative& a : r->alternatives)
    if (a.baseline && a.iteration_ns > 0)
      std::printf(", \"%s\": {\"s\": %.6f, \"fits\": %s}", a.label.c_str(), seconds(a.iteration_ns), a.fits ? "true" : "false");
  std::printf(", \"gap\": %.4f, \"search_s\": %.2f, \"plan\": \"%s\"}\n", r->search.gap, r->search_s, r->plan.label().c_str());
  std::fflush(stdout);
  return uniform == 0 || ns <= uniform;
}

/// Compares balanced stages with the even split in a pipeline: 1F1B with 4 stages, everything else optimised.
bool balance(const Subject& m, const char* device) {
  const auto r = answer(m, cluster_text(device, 1, ""), 8, "{space: layerwise, fix: {pp: 4, schedule: 1f1b}}");
  if (!r) {
    std::fprintf(stderr, "%s: %s\n", m.name, r.error().message().c_str());
    return false;
  }
  std::printf("{\"bench\": \"stage balance\", \"model\": \"%s\", \"device\": \"%s\", \"answer_s\": %.6f, \"uniform_s\": %.6f",
              m.name, device, seconds(r->prediction.iteration_ns), seconds(best_uniform_ns(r->search)));
  bool sound = !r->search.balance.empty();
  for (const StageBalance& b : r->search.balance) {
    std::printf(", \"%s\": {\"s\": %.6f, \"alpha_t\": %.3f, \"alpha_m\": %.3f}", b.name.c_str(), seconds(b.iteration_ns),
                b.alpha_t, b.alpha_m);
    sound = sound && (b.iteration_ns == 0 || r->prediction.iteration_ns <= b.iteration_ns);
  }
  std::printf("}\n");
  std::fflush(stdout);
  return sound;
}

}  // namespace

int main(int argc, char** argv) {
  const bool brief = argc > 1 && std::strcmp(argv[1], "--brief") == 0;
  bool sound = true;
  for (const Subject& m : kImbalanced) sound = balance(m, "titan-rtx") && sound;
  for (const Subject& m : kModels) {
    for (const char* limit : {"8GB", "12GB", "16GB", "20GB"}) {
      sound = gains(m, "titan-rtx", 1, limit) && sound;
      if (!brief) sound = gains(m, "titan-rtx", 2, limit) && sound;
    }
    if (!brief) sound = gains(m, "a100-sxm-40gb", 8, "") && sound;
  }
  return sound ? 0 : 1;
}
