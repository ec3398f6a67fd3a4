// SPDX-License-Identifier: Apache-2.0
// Reads T5 (Raffel et al. 2019): encoder and decoder on two sequences, RMSNorm, no biases, relative position bias.
//
//   attention a = 4·h·(H·k)      h d_model, H num_heads, k d_kv (H·k may differ from h)
//   MLP       m = 2·h·f, or 3·h·f when gated
//   encoder block a + m + 2h;  decoder block 2a + m + 3h;  each stack: relative bias buckets·H in its first block,
//   final norm h.
//
// The pipeline order is embedding (encoder tokens), encoder blocks, decoder blocks, head. The first decoder block
// looks up the decoder's tokens in the same table (0 parameters: tied). The last encoder block holds the encoder's
// final norm. Every decoder block needs the encoder's output, so it travels along until the last one. Keys and values
// of cross-attention are computed from the encoder's output: `cross` marks that linear, whose tokens are the
// encoder's.
#include <string>
#include <utility>

#include "model/family.h"

namespace espalier::model {
namespace {

struct T5 {
  std::int64_t encoder_layers = 0, decoder_layers = 0, hidden = 0, ffn = 0, vocabulary = 0, buckets = 0;
  AttentionShape attention;
  bool gated = false, dropout = false, tied = true;
  bool every_bias = false;  ///< umt5: each block has a relative bias of its own
};

void add_dropout(Operators& list, const T5& t, const std::string& name) {
  if (t.dropout) list.push_back(dropout(name, t.hidden));
}

void add_self_attention(Operators& list, const T5& t, bool causal, bool relative_bias) {
  AttentionShape shape = t.attention;
  shape.causal = causal;
  list.push_back(norm("attn.norm", t.hidden, 1));
  add_attention(list, "attn", shape);
  if (relative_bias) {  // one learned value per bucket and head, added to the scores
    for (Operator& op : list) {
      if (op.kind == OperatorKind::attention) op.parameters = times(t.buckets, shape.heads);
    }
  }
  add_dropout(list, t, "attn.dropout");
  list.push_back(residual("attn.residual", t.hidden));
}

void add_cross_attention(Operators& list, const T5& t) {
  const std::int64_t inner = t.attention.heads * t.attention.head_dim;
  list.push_back(norm("cross.norm", t.hidden, 1));
  list.push_back(linear("cross.q", t.hidden, inner, TpSplit::column, false));
  list.push_back(linear("cross.kv", t.hidden, 2 * inner, TpSplit::column, false));
  list.back().cross = true;
  AttentionShape shape = t.attention;
  shape.causal = false;
  list.push_back(attention_core("cross.core", shape));
  list.back().cross = true;
  list.push_back(linear("cross.out", inner, t.hidden, TpSplit::row, false));
  add_dropout(list, t, "cross.dropout");
  list.push_back(residual("cross.residual", t.hidden));
}

void add_feed_forward(Operators& list, const T5& t) {
  list.push_back(norm("mlp.norm", t.hidden, 1));
  add_mlp(list, "mlp.", {t.hidden, t.ffn, t.gated, false, false, t.dropout});
  add_dropout(list, t, "mlp.dropout");
  list.push_back(residual("mlp.residual", t.hidden));
}

LayerKind encoder_block(const T5& t, bool first, bool last) {
  LayerKind kind = make_kind(name_in_stack("encoder", first, last), LayerRole::block, t.hidden, TokenStream::encoder);
  add_self_attention(kind.operators, t, false, first || t.every_bias);
  add_feed_forward(kind.operators, t);
  if (last) {
    kind.operators.push_back(norm("final.norm", t.hidden, 1));
    add_dropout(kind.operators, t, "final.dropout");
  }
  return kind;
}

LayerKind decoder_block(const T5& t, bool first, bool last) {
  LayerKind kind = make_kind(name_in_stack("decoder", first, last), LayerRole::block, t.hidden, TokenStream::decoder);
  kind.carried_hidden = last ? 0 : t.hidden;
  if (first) {
    add_token_embedding(kind.operators, t.vocabulary, t.hidden);
    kind.operators.back().parameters = 0;  // the encoder's table
    add_dropout(kind.operators, t, "embed.dropout");
  }
  add_self_attention(kind.operators, t, true, first || t.every_bias);
  add_cross_attention(kind.operators, t);
  add_feed_forward(kind.operators, t);
  return kind;
}

LayerKind embedding(const T5& t) {
  LayerKind kind = make_kind("embedding", LayerRole::embedding, t.hidden, TokenStream::encoder);
  add_token_embedding(kind.operators, t.vocabulary, t.hidden);
  add_dropout(kind.operators, t, "embed.dropout");
  return kind;
}

LayerKind head(const T5& t) {
  LayerKind kind = make_kind("head", LayerRole::head, t.hidden, TokenStream::decoder);
  kind.operators.push_back(norm("head.norm", t.hidden, 1));
  add_dropout(kind.operators, t, "head.dropout");
  add_logits(kind.operators, t.hidden, t.vocabulary, t.tied);
  return kind;
}

}  // namespace

void read_t5(Fields& f, Model& model) {
  T5 t;
  t.hidden = f.integer({"d_model"}, SizeLimits::width);
  t.ffn = f.integer({"d_ff"}, SizeLimits::width);
  t.vocabulary = f.integer({"vocab_size"}, SizeLimits::vocabulary);
  t.encoder_layers = f.integer({"num_layers"}, SizeLimits::layers);
  t.decoder_layers = f.integer_or({"num_decoder_layers"}, SizeLimits::layers, t.encoder_layers, "num_layers");
  t.buckets = f.integer_or({"relative_attention_num_buckets"}, SizeLimits::heads, 32);
  t.tied = f.flag("tie_word_embeddings", true);
  t.dropout = f.positive_rate({"dropout_rate"}, 0.1);
  const bool later = model.family != "t5";  // mt5 and umt5 have the v1.1 form
  t.every_bias = model.family == "umt5";
  const std::string activation = f.text({"feed_forward_proj"}, later ? "gated-gelu" : "relu");
  t.gated = activation.rfind("gated-", 0) == 0;
  AttentionShape& a = t.attention;
  a.hidden = t.hidden;
  a.heads = a.kv_heads = f.integer({"num_heads"}, SizeLimits::heads);
  a.head_dim = f.integer({"d_kv"}, SizeLimits::head_dim);
  a.score_dropout = t.dropout;
  f.reader().ignore({"is_gated_act", "dense_act_fn", "relative_attention_max_distance", "n_positions", "tokenizer_class",
                     "scalable_attention"});
  if (!f.ok()) return;

  model.vocabulary = t.vocabulary;
  model.tied_embeddings = t.tied;
  LayerList layers(model);
  layers.add(embedding(t));
  for (std::int64_t i = 0; i < t.encoder_layers; ++i) layers.add(encoder_block(t, i == 0, i + 1 == t.encoder_layers));
  for (std::int64_t i = 0; i < t.decoder_layers; ++i) layers.add(decoder_block(t, i == 0, i + 1 == t.decoder_layers));
  layers.add(head(t));
}

}  // namespace espalier::model
