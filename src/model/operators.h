// SPDX-License-Identifier: Apache-2.0
// Defines operators and the groups of them that model families share: attention, MLP, mixture of experts, embedding,
// head.
//
// A linear has in·out parameters (+ out with bias). Under tensor parallelism a column linear splits weight and bias.
// A row linear splits the weight and keeps the bias whole (it is added once, after the reduction). `none` keeps all
// whole. Gated MLPs (SwiGLU, GeGLU) have one fused gate_up of width 2·ffn. Lists are in execution order and complete:
// time, launches and saved activations are derived from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/model.h"

namespace espalier::model {

using Operators = std::vector<Operator>;

/// Products and sums of sizes saturate here. Hostile sizes end in the "too many parameters" error of finish_model,
/// never in overflow.
inline constexpr std::int64_t kHuge = std::int64_t{1} << 60;
/// Returns a·b, saturating at kHuge.
std::int64_t times(std::int64_t a, std::int64_t b);

Operator linear(std::string name, std::int64_t in, std::int64_t out, TpSplit split, bool bias);
/// Returns a norm. `weights`: 1 for RMSNorm (scale), 2 for LayerNorm (scale and bias), 0 for a norm without
/// parameters.
Operator norm(std::string name, std::int64_t width, int weights);
Operator dropout(std::string name, std::int64_t width, TpSplit split = TpSplit::none);
Operator residual(std::string name, std::int64_t width);
Operator activation(std::string name, std::int64_t in, std::int64_t out, TpSplit split);
Operator table(std::string name, std::int64_t rows, std::int64_t width, TpSplit split);
Operator pool(std::string name, std::int64_t width);
Operator cross_entropy(std::int64_t classes, TpSplit split);

/// Makes it an operator that uses an earlier layer's weights: no parameters, and "again." before its name.
void use_again(Operator& op);

struct AttentionShape {
  std::int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool qkv_bias = false, out_bias = false;
  std::int64_t rotary_dim = 0;  ///< rotated features per head; 0 = no rotary embedding
  bool qk_norm = false;         ///< RMSNorm over each head's features of Q and K, one weight vector for all heads
  std::int64_t window = 0;
  bool causal = true;
  bool score_dropout = false;
  std::int64_t chunk = 0;      ///< attention inside pieces of this many tokens; 0 = no pieces
  bool sinks = false;          ///< one learned score a head that takes part in every softmax (gpt_oss)
  bool qk_norm_whole = false;  ///< with qk_norm: weights for all features of all heads, not for those of one
  int qk_norm_weights = 1;     ///< 2 with a bias, 0 without any
  /// Sets the width of a gate on the attention's output, which is computed from the block's input; 0 = none.
  std::int64_t gate = 0;
  int sub_norm = 0;              ///< weights a feature of a norm before the output projection; 0 = no norm
  bool value_norm = false;       ///< RMSNorm without weights over each head's values (gemma4)
  bool keys_are_values = false;  ///< one projection makes both (gemma4)
  bool foreign_keys = false;     ///< keys and values are those of an earlier layer
};
/// Adds [prefix.gate,] .qkv, .q_norm, .k_norm, .v_norm, .rotary, .core, [.sub_norm, .gated,] .out.
void add_attention(Operators& list, const std::string& prefix, const AttentionShape& shape);
/// Returns prefix.core alone.
Operator attention_core(std::string name, const AttentionShape& shape);

struct MlpShape {
  std::int64_t hidden = 0, ffn = 0;
  bool gated = false, in_bias = false, out_bias = false;
  bool inner_dropout = false;  ///< between activation and down projection (T5)
  bool parallel = false;       ///< parallel to attention: reads the same input
  int sub_norm = 0;            ///< weights a feature of a norm before the down projection; 0 = no norm
  std::int64_t activation_parameters = 0;
};
/// Adds prefix.gate_up or .up, .activation, [.inner_dropout], .down.
void add_mlp(Operators& list, const std::string& prefix, const MlpShape& shape);

struct ExpertShape {
  std::int64_t hidden = 0, ffn = 0, experts = 0, top_k = 0;
  bool gated = true, bias = false;
  std::int64_t shared_ffn = 0;  ///< width of the always-active shared experts; 0 = none
  bool router_bias = false;
  bool shared_gate = false;  ///< a sigmoid of one feature scales the shared experts' output (qwen2_moe)
};
/// Adds mlp.router, .dispatch, .expert_gate_up, .expert_activation, .expert_down, .combine, then the shared experts.
void add_experts(Operators& list, const ExpertShape& shape);

/// Adds embed.token: vocabulary × width, split over the vocabulary.
void add_token_embedding(Operators& list, std::int64_t vocabulary, std::int64_t width);
/// Adds a learned table to the token embedding: its lookup and its addition.
void add_extra_embedding(Operators& list, const std::string& name, std::int64_t rows, std::int64_t width);
/// Adds the operators that make tokens of sound: two convolutions of three taps, the second of stride two. Each token
/// takes 2 frames of `bins`. They come first in `list`.
void add_sound_convolutions(Operators& list, std::int64_t bins, std::int64_t width);
/// Adds head.logits (no parameters except the bias if tied) and head.loss.
void add_logits(Operators& list, std::int64_t width, std::int64_t vocabulary, bool tied, bool bias = false);

/// Defines where the norms of a block are.
enum class NormPlace : std::uint8_t {
  before,    ///< before attention and before the MLP
  sandwich,  ///< before and after both
  after,     ///< after both, before the additions
  parallel,  ///< one norm, before parallel attention and MLP
};
struct BlockShape {
  std::int64_t hidden = 0;
  int norm_weights = 1;  ///< as in norm()
  NormPlace norms = NormPlace::before;
  bool dropout = false;  ///< after attention and MLP
};
/// Adds norms, the operators that mix tokens, addition, norms, the operators of the MLP, addition.
void add_block(Operators& list, const BlockShape& shape, Operators mixer, Operators mlp);

/// Returns "decoder.first.last" for a stack whose first and last blocks are separate kinds.
std::string name_in_stack(const char* stack, bool first, bool last);
/// Makes a layer without operators.
LayerKind make_kind(std::string name, LayerRole role, std::int64_t hidden, TokenStream stream = TokenStream::main);

/// Puts layers in pipeline order and keeps one copy of each kind, identified by its name.
class LayerList {
 public:
  explicit LayerList(Model& model) : model_(&model) {}
  void add(LayerKind kind);

 private:
  Model* model_;
};

}  // namespace espalier::model
