// SPDX-License-Identifier: Apache-2.0
// Provides small models and plans of them for the tests of the runtime.
#pragma once

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/model.h"
#include "espalier/plan.h"

namespace espalier::runtime::testing {

inline constexpr std::int64_t kTokens = 16, kSamples = 8;

/// With ESPALIER_RUNTIME_ALL=1 (./dev test --runtime), all plans run for 20 steps. Otherwise one of each kind runs
/// for four. Wrong sums, gathers or copies appear in the gradients of the first step and the loss of the second.
inline bool runs_all() { return std::getenv("ESPALIER_RUNTIME_ALL") != nullptr; }
inline std::int64_t steps_of_a_run() { return runs_all() ? 20 : 4; }

/// Has four blocks of grouped-query attention (4 query heads, 2 key/value heads) and gated MLP, with
/// a separate output.
inline constexpr const char* kLlama =
    R"({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 64, "vocab_size": 96, "tie_word_embeddings": false})";
/// Adds an output tied to the embedding and an odd vocabulary, which no tensor group divides.
inline constexpr const char* kTiedLlama =
    R"({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
  "num_key_value_heads": 1, "intermediate_size": 64, "vocab_size": 97, "tie_word_embeddings": true})";
/// Has LayerNorm, biases, learned positions and a tied output.
inline constexpr const char* kGpt2 =
    R"({"model_type": "gpt2", "n_embd": 32, "n_layer": 4, "n_head": 4, "n_positions": 16, "vocab_size": 96,
  "embd_pdrop": 0, "resid_pdrop": 0, "attn_pdrop": 0})";
/// Has biases on queries, keys and values only.
inline constexpr const char* kQwen2 =
    R"({"model_type": "qwen2", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 48, "vocab_size": 64, "tie_word_embeddings": true})";
/// Has a window of five keys.
inline constexpr const char* kMistral =
    R"({"model_type": "mistral", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 48, "vocab_size": 64, "tie_word_embeddings": false, "sliding_window": 5})";

/// Has four experts, of which a token takes two, and two key/value heads.
inline constexpr const char* kMixtral =
    R"({"model_type": "mixtral", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 48, "vocab_size": 64, "num_local_experts": 4, "num_experts_per_tok": 2})";
/// Has norms of heads, and a dense layer between mixtures of experts whose weights are not normalised.
inline constexpr const char* kQwen3Moe =
    R"({"model_type": "qwen3_moe", "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "head_dim": 8,
  "num_key_value_heads": 1, "intermediate_size": 48, "moe_intermediate_size": 16, "vocab_size": 64, "num_experts": 8,
  "num_experts_per_tok": 3, "mlp_only_layers": [1], "norm_topk_prob": false})";
/// Has norms of heads wider than hidden / heads, and rotary positions stretched beyond a context of 8 tokens.
inline constexpr const char* kQwen3 =
    R"({"model_type": "qwen3", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 16,
  "num_key_value_heads": 2, "intermediate_size": 48, "vocab_size": 64, "tie_word_embeddings": true,
  "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                   "original_max_position_embeddings": 8}})";

inline Strategy strategy(std::int32_t tp, std::int32_t dp, std::int32_t zero = 0, SequenceParallel sp = SequenceParallel::none) {
  Strategy s;
  s.tp = tp;
  s.dp = dp;
  s.sp = tp > 1 ? sp : SequenceParallel::none;
  s.zero = ZeroStage{zero};
  if (zero > 0) s.shard = static_cast<std::int32_t>(s.data_ranks());
  return s;
}

/// Splits tokens over `cp` ranks.
inline Strategy context(Strategy s, std::int32_t cp, ContextParallelKind kind = ContextParallelKind::ring) {
  s.cp = cp;
  s.cp_kind = kind;
  if (s.shards_optimizer()) s.shard = static_cast<std::int32_t>(s.data_ranks());
  return s;
}

/// Spreads experts over `ep` ranks, each split over `etp`.
inline Strategy experts(Strategy s, std::int32_t ep, std::int32_t etp = 1) {
  s.ep = ep;
  s.etp = etp;
  return s;
}

inline Schedule schedule(ScheduleKind kind, std::int32_t stages, std::int32_t virtual_stages = 1, std::int32_t micro_batch = 1) {
  Schedule out;
  out.kind = kind;
  out.stages = stages;
  out.virtual_stages = virtual_stages;
  out.micro_batch = micro_batch;
  return out;
}

inline Model model_of(const char* config) { return load_model(config, "config.json").value(); }

/// Returns the uniform plan of a small model on just the devices that it needs.
inline Plan plan_of(const char* config, const Strategy& s, Schedule c) {
  const Model model = model_of(config);
  Training training;
  training.sequence.main = kTokens;
  training.global_batch = kSamples;
  training.precision = Precision::fp32;
  c.microbatches = static_cast<std::int32_t>(kSamples / (std::int64_t{c.micro_batch} * s.dp));
  Cluster cluster;
  NodeGroup group;
  group.nodes = 1;
  group.devices_per_node = s.devices() * c.stages;
  cluster.groups = {group};
  Plan plan = make_uniform_plan(model, cluster, training, "generic", s, c, SplitPolicy::even_blocks);
  plan.model_source = base::to_json(base::read_json(config, "config.json")->root);
  plan.model_hash = base::content_hash(plan.model_source);
  plan.cluster_hash = base::content_hash(plan.cluster_source);
  return plan;
}

/// Puts layers first … last under another strategy of the same devices, in the only chunk of every stage
/// that holds them.
inline void respread(Plan& plan, std::int32_t first, std::int32_t last, const Strategy& s) {
  for (Stage& stage : plan.only_pipeline().stages)
    for (Chunk& chunk : stage.chunks) {
      std::vector<LayerRange> ranges;
      for (const LayerRange& range : chunk.ranges)
        for (std::int32_t l = range.first; l <= range.last; ++l) {
          const Strategy& wanted = l >= first && l <= last ? s : range.strategy;
          if (!ranges.empty() && ranges.back().strategy == wanted)
            ranges.back().last = l;
          else
            ranges.push_back({l, l, wanted});
        }
      chunk.ranges = ranges;
    }
}

/// Cuts the plan into stages of one chunk each that end with these layers.
inline void cut(Plan& plan, const std::vector<std::int32_t>& lasts) {
  std::int32_t first = 0;
  for (std::size_t i = 0; i < lasts.size(); ++i) {
    LayerRange& range = plan.only_pipeline().stages[i].chunks.front().ranges.front();
    range.first = first;
    range.last = lasts[i];
    first = lasts[i] + 1;
  }
}

}  // namespace espalier::runtime::testing
