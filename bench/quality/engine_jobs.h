// SPDX-License-Identifier: Apache-2.0
// Generates random jobs for engines: models with a config.json of transformers on equal nodes, with the search
// restrictions that users set.
#pragma once

#include <string>
#include <vector>

#include "base/format.h"
#include "random.h"

namespace espalier::bench {

using property::Random;

inline std::string dense_text(Random& random) {
  const std::int64_t heads = random.of<std::int64_t>({8, 16, 32}), hidden = heads * random.of<std::int64_t>({64, 128});
  const std::string type = random.of<std::string>({"llama", "llama", "mistral", "qwen2", "qwen3", "gemma2", "phi3"});
  return cat("{model_type: ", type, ", hidden_size: ", hidden, ", intermediate_size: ", hidden * random.between(2, 4),
             ", num_hidden_layers: ", random.between(3, 40), ", num_attention_heads: ", heads,
             ", num_key_value_heads: ", random.one_in(2) ? heads : random.of<std::int64_t>({1, 2, heads / 4}),
             type == "gemma2" ? cat(", head_dim: ", hidden / heads) : "", ", max_position_embeddings: 32768",
             ", vocab_size: ", random.of<std::int64_t>({32000, 50304, 128256}),
             ", tie_word_embeddings: ", random.one_in(2) ? "true" : "false", "}");
}

inline std::string gpt2_text(Random& random) {
  const std::int64_t heads = random.of<std::int64_t>({8, 12, 16});
  return cat("{model_type: gpt2, n_embd: ", heads * 64, ", n_head: ", heads, ", n_layer: ", random.between(4, 36),
             ", n_positions: 4096, vocab_size: 50257}");
}

inline std::string mixture_text(Random& random) {
  const std::int64_t heads = random.of<std::int64_t>({8, 16, 32}), hidden = heads * 64;
  const std::string common =
      cat("hidden_size: ", hidden, ", num_hidden_layers: ", random.between(4, 24), ", num_attention_heads: ", heads,
          ", num_key_value_heads: ", random.of<std::int64_t>({2, heads / 4, heads}), ", vocab_size: 32000, head_dim: 64",
          ", max_position_embeddings: 32768, num_experts_per_tok: 2");
  if (random.one_in(2))
    return cat("{model_type: mixtral, ", common, ", intermediate_size: ", 3 * hidden, ", num_local_experts: 8}");
  return cat("{model_type: qwen3_moe, ", common, ", intermediate_size: ", 3 * hidden, ", moe_intermediate_size: ", hidden,
             ", num_experts: ", random.of<std::int64_t>({8, 32, 64}), "}");
}

struct ClusterText {
  std::string text, device;
  std::int64_t devices = 1;
};

inline ClusterText cluster_of(Random& random) {
  const std::int64_t per_node = random.of<std::int64_t>({1, 2, 4, 8, 8}), nodes = random.of<std::int64_t>({1, 1, 2, 2, 4, 3});
  const std::string host = random.one_in(3) ? ", host: {memory: 512GiB, memory_bandwidth: 300GB/s, bandwidth: 25GB/s}" : "";
  const std::string device = random.of<std::string>({"h100-sxm-80gb", "a100-sxm-80gb", "a100-sxm-40gb", "l40s"});
  return {cat("{nodes: ", nodes, ", devices_per_node: ", per_node, ", device: ", device, host, "}"), device, nodes * per_node};
}

/// Returns a restriction of the space that users ask for; mostly none.
inline std::string search_of(Random& random, std::int64_t devices) {
  const std::int64_t kind = random.below(8);
  if (devices % 2 != 0 && (kind == 2 || kind == 3)) return "";
  switch (kind) {
    case 0: return "search: {space: layerwise}\n";
    case 1: return "search: {fix: {recompute: full}}\n";
    case 2: return "search: {allow: {pp: [2, 4, 8]}}\n";
    case 3: return "search: {allow: {tp: [2, 4, 8]}}\n";
    case 4: return "search: {fix: {recompute: selective}}\n";
    default: return "";
  }
}

/// Returns a job file without its engine, which comes last.
inline std::string engine_job_text(Random& random) {
  const std::int64_t kind = random.below(10);
  const std::string model = kind < 6 ? dense_text(random) : kind < 8 ? mixture_text(random) : gpt2_text(random);
  const ClusterText cluster = cluster_of(random);
  const bool eight_bits = cluster.device == "h100-sxm-80gb" || cluster.device == "l40s";
  const std::string precision =
      random.of<std::string>({"bf16", "bf16", "bf16", "bf16", "fp16", "fp32", eight_bits ? "fp8" : "bf16"});
  const std::string packing = random.one_in(12) ? ", lengths: {histogram: [[128, 3], [300, 2], [1024, 1]], packing: packed}" : "";
  const std::int64_t sequence = packing.empty() ? random.of<std::int64_t>({512, 1024, 2048, 4096}) : 1024;
  return cat("model: ", model, "\ncluster: ", cluster.text, "\ntraining: {sequence_length: ", sequence,
             ", global_batch: ", random.of<std::int64_t>({8, 12, 16, 24, 32, 64, 96, 128}), ", precision: ", precision, packing,
             "}\n", search_of(random, cluster.devices), "engine: ");
}

}  // namespace espalier::bench
