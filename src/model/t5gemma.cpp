// SPDX-License-Identifier: Apache-2.0
// Reads T5Gemma (Zhang et al. 2025, arXiv 2504.06225): an encoder and a decoder of Gemma 2's blocks, each with its
// own table. The decoder's table is also the output projection. Norms are before and after each part; windows
// alternate in both stacks.
//
//   encoder block = attention + 3·h·f + 4h;   decoder block adds cross-attention to the encoder's output and 2h.
//
// Layers and streams are those of t5.cpp. The decoder's table is counted where its tokens are looked up, in the first
// decoder block. In a pipeline the head's stage holds another copy, as for all tied tables. If that block is on the
// same stage, this counts one table too many.
#include <string>
#include <utility>

#include "model/family.h"

namespace espalier::model {
namespace {

struct T5GemmaStack {
  std::int64_t layers = 0, hidden = 0, ffn = 0, vocabulary = 0;
  bool dropout = false, softcap = false;
  AttentionShape attention;
  std::vector<std::int64_t> windows;
};

T5GemmaStack read_stack(Fields& f) {
  T5GemmaStack s;
  s.hidden = f.integer_or({"hidden_size"}, SizeLimits::width, 2304);
  s.layers = f.integer_or({"num_hidden_layers"}, SizeLimits::layers, 26);
  s.ffn = f.integer_or({"intermediate_size"}, SizeLimits::width, 9216);
  s.vocabulary = f.integer_or({"vocab_size"}, SizeLimits::vocabulary, 256000);
  s.attention = read_gemma_attention(f, s.hidden, 4);
  s.attention.score_dropout = f.positive_rate({"attention_dropout"}, 0);
  s.dropout = f.positive_rate({"dropout_rate"}, 0);
  s.softcap = f.reader().find("final_logit_softcapping") == nullptr || f.reader().has("final_logit_softcapping");
  const std::int64_t window = f.integer_nullable({"sliding_window"}, SizeLimits::tokens, 4096, 0, "sliding window off", 0);
  s.windows = windows_of_layer_types(f, s.layers, window);
  for (auto i = static_cast<std::int64_t>(s.windows.size()); f.ok() && i < s.layers; ++i)
    s.windows.push_back(i % 2 == 0 ? window : 0);
  f.reader().ignore({"hidden_activation", "query_pre_attn_scalar", "final_logit_softcapping", "attn_logit_softcapping",
                     "is_decoder", "cross_attention_hidden_size", "classifier_dropout_rate", "tie_word_embeddings"});
  return s;
}

/// Adds norm, part, norm, addition.
void add_part(Operators& list, const T5GemmaStack& s, const std::string& name, Operators part) {
  list.push_back(norm(name + ".norm", s.hidden, 1));
  for (Operator& op : part) list.push_back(std::move(op));
  list.push_back(norm(name + ".post_norm", s.hidden, 1));
  if (s.dropout) list.push_back(dropout(name + ".dropout", s.hidden));
  list.push_back(residual(name + ".residual", s.hidden));
}

Operators self_attention(const T5GemmaStack& s, std::int64_t window, bool causal) {
  Operators list;
  AttentionShape shape = s.attention;
  shape.window = window;
  shape.causal = causal;
  add_attention(list, "attn", shape);
  return list;
}

Operators cross_attention(const T5GemmaStack& s, std::int64_t encoder_hidden) {
  Operators list;
  AttentionShape shape = s.attention;
  shape.causal = false;
  shape.rotary_dim = 0;
  const std::int64_t inner = shape.heads * shape.head_dim;
  list.push_back(linear("cross.q", s.hidden, inner, TpSplit::column, shape.qkv_bias));
  list.push_back(linear("cross.kv", encoder_hidden, 2 * shape.kv_heads * shape.head_dim, TpSplit::column, shape.qkv_bias));
  list.back().cross = true;
  list.push_back(attention_core("cross.core", shape));
  list.back().cross = true;
  list.push_back(linear("cross.out", inner, s.hidden, TpSplit::row, shape.out_bias));
  return list;
}

Operators feed_forward(const T5GemmaStack& s) {
  Operators list;
  add_mlp(list, "mlp.", {s.hidden, s.ffn, true, false, false, s.dropout});
  return list;
}

std::string name_of(const char* stack, bool slides, bool first, bool last) {
  return std::string(stack) + (slides ? ".sliding" : "") + (first ? ".first" : "") + (last ? ".last" : "");
}

LayerKind encoder_block(const T5GemmaStack& s, std::size_t i) {
  const bool last = i + 1 == s.windows.size();
  LayerKind kind = make_kind(name_of("encoder", s.windows[i] > 0, false, last), LayerRole::block, s.hidden, TokenStream::encoder);
  add_part(kind.operators, s, "attn", self_attention(s, s.windows[i], false));
  add_part(kind.operators, s, "mlp", feed_forward(s));
  if (last) kind.operators.push_back(norm("final.norm", s.hidden, 1));
  return kind;
}

LayerKind decoder_block(const T5GemmaStack& s, std::int64_t encoder_hidden, std::size_t i) {
  const bool first = i == 0, last = i + 1 == s.windows.size();
  LayerKind kind = make_kind(name_of("decoder", s.windows[i] > 0, first, last), LayerRole::block, s.hidden, TokenStream::decoder);
  kind.carried_hidden = last ? 0 : encoder_hidden;
  if (first) add_token_embedding(kind.operators, s.vocabulary, s.hidden);
  add_part(kind.operators, s, "attn", self_attention(s, s.windows[i], true));
  add_part(kind.operators, s, "cross", cross_attention(s, encoder_hidden));
  add_part(kind.operators, s, "mlp", feed_forward(s));
  return kind;
}

LayerKind head(const T5GemmaStack& s, bool tied) {
  LayerKind kind = make_kind("head", LayerRole::head, s.hidden, TokenStream::decoder);
  kind.operators.push_back(norm("head.norm", s.hidden, 1));
  add_logits(kind.operators, s.hidden, s.vocabulary, tied);
  if (s.softcap)  // between logits and loss
    kind.operators.insert(kind.operators.end() - 1, activation("head.softcap", s.vocabulary, s.vocabulary, TpSplit::vocab));
  return kind;
}

}  // namespace

void read_t5gemma(Fields& f, Model& model) {
  const bool tied = f.flag("tie_word_embeddings", true);
  if (!f.reader().optional_bool("is_encoder_decoder", true)) f.fail("is_encoder_decoder", "false", "an encoder and a decoder");
  f.reader().ignore({"dropout_rate", "classifier_dropout_rate", "attention_dropout", "vocab_size"});
  base::Reader in = f.reader().child("encoder", true), out = f.reader().child("decoder", true);
  if (!f.ok()) return;
  Fields encoder_fields(in, model.notes), decoder_fields(out, model.notes);
  const T5GemmaStack encoder = read_stack(encoder_fields), decoder = read_stack(decoder_fields);
  if (f.ok() && tied && (encoder.hidden != decoder.hidden || encoder.vocabulary != decoder.vocabulary))
    decoder_fields.fail("hidden_size", decoder.hidden, "a table of the encoder's size, because it is also the output projection",
                        "pairs of unequal widths (9b-2b) are not supported");
  if (!f.ok()) return;
  judge_unread(encoder_fields, model.family);
  judge_unread(decoder_fields, model.family);

  model.vocabulary = decoder.vocabulary;
  model.tied_embeddings = tied;
  LayerList layers(model);
  LayerKind embedding = make_kind("embedding", LayerRole::embedding, encoder.hidden, TokenStream::encoder);
  add_token_embedding(embedding.operators, encoder.vocabulary, encoder.hidden);
  layers.add(std::move(embedding));
  for (std::size_t i = 0; i < encoder.windows.size(); ++i) layers.add(encoder_block(encoder, i));
  for (std::size_t i = 0; i < decoder.windows.size(); ++i) layers.add(decoder_block(decoder, encoder.hidden, i));
  layers.add(head(decoder, tied));
}

}  // namespace espalier::model
