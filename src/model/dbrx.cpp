// SPDX-License-Identifier: Apache-2.0
// Reads DBRX (Databricks 2024): mixtures in every block, norms without shift, no biases. Sizes of attention and
// experts are in separate mappings.
//
//   block = h·(H + 2·KV)·d + h² + h·E + 3·E·h·f + 2h        d = h / H
#include <algorithm>
#include <string>
#include <utility>

#include "model/family.h"

namespace espalier::model {
namespace {

struct Dbrx {
  std::int64_t layers = 0, vocabulary = 0;
  BlockShape block;
  AttentionShape attention;
  ExpertShape experts;
};

void read_attention(Fields& f, Dbrx& d) {
  AttentionShape& a = d.attention;
  a.hidden = d.block.hidden;
  a.heads = f.integer({"n_heads"}, SizeLimits::heads);
  f.require_divides("n_heads", a.heads, "d_model", a.hidden);
  a.head_dim = a.rotary_dim = std::max<std::int64_t>(1, a.hidden / a.heads);
}

/// Reads both mappings; `own` is that of attention.
void read_mappings(Fields& f, Fields& own, Fields& experts, Dbrx& d) {
  AttentionShape& a = d.attention;
  a.kv_heads = own.integer_or({"kv_n_heads"}, SizeLimits::heads, 1);
  own.require_divides("kv_n_heads", a.kv_heads, "n_heads", a.heads);
  const std::int64_t again = f.reader().optional_int("num_key_value_heads", 1, SizeLimits::heads, a.kv_heads);
  if (f.ok() && again != a.kv_heads)
    f.fail("num_key_value_heads", again, "attn_config.kv_n_heads, " + std::to_string(a.kv_heads));
  a.score_dropout = own.positive_rate({"attn_pdrop"}, 0);
  own.reader().ignore({"clip_qkv", "rope_theta"});
  d.experts.hidden = d.block.hidden;
  d.experts.ffn = experts.integer_or({"ffn_hidden_size"}, SizeLimits::width, 3584);
  d.experts.experts = experts.integer_or({"moe_num_experts"}, SizeLimits::experts, 4);
  d.experts.top_k = experts.integer_or({"moe_top_k"}, SizeLimits::experts, 1);
  if (experts.ok() && d.experts.top_k > d.experts.experts)
    experts.fail("moe_top_k", d.experts.top_k, "at most moe_num_experts, " + std::to_string(d.experts.experts));
  experts.reader().ignore({"hidden_size", "ffn_act_fn", "moe_normalize_expert_weights", "moe_loss_weight", "moe_jitter_eps",
                           "uniform_expert_assignment"});
}

}  // namespace

void read_dbrx(Fields& f, Model& model) {
  Dbrx d;
  d.block = {f.integer({"d_model"}, SizeLimits::width), 1, NormPlace::before, false};
  d.layers = f.integer({"n_layers"}, SizeLimits::layers);
  d.vocabulary = f.integer({"vocab_size"}, SizeLimits::vocabulary);
  read_attention(f, d);
  d.block.dropout = f.positive_rate({"resid_pdrop"}, 0);
  if (f.flag("tie_word_embeddings", false))
    f.fail("tie_word_embeddings", "true", "false: the class supports only separate tables");
  const std::int64_t context = f.integer_or({"max_seq_len"}, SizeLimits::tokens, 2048);
  f.reader().ignore({"emb_pdrop"});
  base::Reader attention_reader = f.reader().child("attn_config", false), expert_reader = f.reader().child("ffn_config", false);
  if (!f.ok()) return;
  Fields own(attention_reader, model.notes), experts(expert_reader, model.notes);
  read_mappings(f, own, experts, d);
  if (!f.ok()) return;
  judge_unread(own, model.family);
  judge_unread(experts, model.family);

  model.context_length = context;
  model.vocabulary = d.vocabulary;
  LayerList layers(model);
  LayerKind embedding = make_kind("embedding", LayerRole::embedding, d.block.hidden);
  add_token_embedding(embedding.operators, d.vocabulary, d.block.hidden);
  layers.add(std::move(embedding));
  for (std::int64_t i = 0; i < d.layers; ++i) {
    LayerKind kind = make_kind("decoder.moe", LayerRole::block, d.block.hidden);
    Operators mixer, mlp;
    add_attention(mixer, "attn", d.attention);
    add_experts(mlp, d.experts);
    add_block(kind.operators, d.block, std::move(mixer), std::move(mlp));
    layers.add(std::move(kind));
  }
  LayerKind head = make_kind("head", LayerRole::head, d.block.hidden);
  head.operators.push_back(norm("head.norm", d.block.hidden, 1));
  add_logits(head.operators, d.block.hidden, d.vocabulary, false);
  layers.add(std::move(head));
}

}  // namespace espalier::model
