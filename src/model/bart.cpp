// SPDX-License-Identifier: Apache-2.0
// Reads encoder-decoder pairs of BART's form (Lewis et al. 2019): biases, LayerNorm, plain MLPs, learned or computed
// positions.
//
//   parts           attention a = 4h² + 4h, MLP m = 2·h·f + f + h, norms 2h each
//   encoder block   a + m + 4h
//   decoder block   2a + m + 6h
//   each stack      positions p·h, norm of the embedding 2h, final norm 2h (if present).
//
// Text models have embedding (encoder's tokens), encoder, decoder, head. The first decoder block looks up its tokens
// in the same table. Whisper (Radford et al. 2022) has embedding (the decoder's tokens), encoder on frames of sound,
// decoder, head. The embedded tokens travel along past the encoder. Two convolutions of three taps make d features of
// 2 · 80 mel bins a frame. Its keys have no bias. Layers and streams are those of t5.cpp.
#include <string>
#include <utility>

#include "model/family.h"

namespace espalier::model {
namespace {

/// Holds the properties fixed by a family.
struct Form {
  bool norms_first = false;          ///< pre-norm stacks with a final norm each
  std::int64_t extra_positions = 0;  ///< position rows before the first; −1: positions are computed
  bool embedding_norm = false;
  bool frames = false;  ///< sound (whisper)
};

struct BartStack {
  std::int64_t layers = 0, ffn = 0;
  AttentionShape attention;
};

struct EncoderDecoder {
  Form form;
  std::int64_t hidden = 0, vocabulary = 0, positions = 0, bins = 0, frames = 0;
  BartStack encoder, decoder;
  bool dropout = false, inner_dropout = false, tied = true;
};

void add_dropout(Operators& list, const EncoderDecoder& p, const std::string& name) {
  if (p.dropout) list.push_back(dropout(name, p.hidden));
}

/// Adds a half of a block: norm and addition around `inner`, in the family's order.
void add_half(Operators& list, const EncoderDecoder& p, const std::string& name, Operators inner) {
  if (p.form.norms_first) list.push_back(norm(name + ".norm", p.hidden, 2));
  for (Operator& op : inner) list.push_back(std::move(op));
  add_dropout(list, p, name + ".dropout");
  list.push_back(residual(name + ".residual", p.hidden));
  if (!p.form.norms_first) list.push_back(norm(name + ".norm", p.hidden, 2));
}

void drop_key_bias(const EncoderDecoder& p, Operator& op) {
  if (p.form.frames) op.parameters -= p.hidden;
}

Operators self_attention(const EncoderDecoder& p, const BartStack& stack, bool causal) {
  Operators list;
  AttentionShape shape = stack.attention;
  shape.causal = causal;
  add_attention(list, "attn", shape);
  drop_key_bias(p, list.front());
  return list;
}

Operators cross_attention(const EncoderDecoder& p, const BartStack& stack) {
  const std::int64_t h = p.hidden;
  Operators list;
  list.push_back(linear("cross.q", h, h, TpSplit::column, true));
  list.push_back(linear("cross.kv", h, 2 * h, TpSplit::column, true));
  drop_key_bias(p, list.back());
  list.back().cross = true;
  AttentionShape shape = stack.attention;
  shape.causal = false;
  list.push_back(attention_core("cross.core", shape));
  list.back().cross = true;
  list.push_back(linear("cross.out", h, h, TpSplit::row, true));
  return list;
}

Operators feed_forward(const EncoderDecoder& p, const BartStack& stack) {
  Operators list;
  add_mlp(list, "mlp.", {p.hidden, stack.ffn, false, true, true, p.inner_dropout});
  return list;
}

/// Adds positions, norm and dropout after a lookup.
void add_embedding_rest(Operators& list, const EncoderDecoder& p) {
  if (p.form.extra_positions >= 0) add_extra_embedding(list, "position", p.positions + p.form.extra_positions, p.hidden);
  if (p.form.embedding_norm) list.push_back(norm("embed.norm", p.hidden, 2));
  add_dropout(list, p, "embed.dropout");
}

LayerKind encoder_block(const EncoderDecoder& p, bool first, bool last) {
  const bool opens = first && p.form.frames;
  LayerKind kind = make_kind(name_in_stack("encoder", opens, last), LayerRole::block, p.hidden, TokenStream::encoder);
  if (p.form.frames) {
    kind.carried = TokenStream::decoder;
    kind.carried_hidden = p.hidden;
  }
  if (opens) add_sound_convolutions(kind.operators, p.bins, p.hidden);
  add_half(kind.operators, p, "attn", self_attention(p, p.encoder, false));
  add_half(kind.operators, p, "mlp", feed_forward(p, p.encoder));
  if (last && p.form.norms_first) kind.operators.push_back(norm("final.norm", p.hidden, 2));
  return kind;
}

LayerKind decoder_block(const EncoderDecoder& p, bool first, bool last) {
  const bool opens = first && !p.form.frames;
  LayerKind kind = make_kind(name_in_stack("decoder", opens, last), LayerRole::block, p.hidden, TokenStream::decoder);
  kind.carried_hidden = last ? 0 : p.hidden;
  if (opens) {
    add_token_embedding(kind.operators, p.vocabulary, p.hidden);
    kind.operators.back().parameters = 0;  // the encoder's table
    add_embedding_rest(kind.operators, p);
  }
  add_half(kind.operators, p, "attn", self_attention(p, p.decoder, true));
  add_half(kind.operators, p, "cross", cross_attention(p, p.decoder));
  add_half(kind.operators, p, "mlp", feed_forward(p, p.decoder));
  return kind;
}

BartStack read_stack(Fields& f, const std::string& name, std::int64_t hidden) {
  BartStack s;
  s.layers = f.integer({name + "_layers"}, SizeLimits::layers);
  s.ffn = f.integer({name + "_ffn_dim"}, SizeLimits::width);
  AttentionShape& a = s.attention;
  a.hidden = hidden;
  a.heads = a.kv_heads = f.integer({name + "_attention_heads"}, SizeLimits::heads);
  f.require_divides(name + "_attention_heads", a.heads, "d_model", hidden);
  a.head_dim = std::max<std::int64_t>(1, hidden / a.heads);
  a.qkv_bias = a.out_bias = true;
  a.score_dropout = f.positive_rate({"attention_dropout"}, 0);
  return s;
}

void read_positions(Fields& f, EncoderDecoder& p) {
  if (!p.form.frames) {
    p.positions = f.integer_or({"max_position_embeddings"}, SizeLimits::tokens, 1024);
    return;
  }
  p.positions = f.integer_or({"max_target_positions"}, SizeLimits::tokens, 448);
  p.frames = f.integer_or({"max_source_positions"}, SizeLimits::tokens, 1500);
  p.bins = f.integer_or({"num_mel_bins"}, SizeLimits::width, 80);
}

void build(const EncoderDecoder& p, Model& model) {
  model.vocabulary = p.vocabulary;
  model.tied_embeddings = p.tied;
  model.max_positions = p.form.extra_positions >= 0 ? p.positions : 0;
  model.encoder_tokens = p.frames;
  LayerList layers(model);
  const TokenStream first = p.form.frames ? TokenStream::decoder : TokenStream::encoder;
  LayerKind embedding = make_kind("embedding", LayerRole::embedding, p.hidden, first);
  add_token_embedding(embedding.operators, p.vocabulary, p.hidden);
  add_embedding_rest(embedding.operators, p);
  layers.add(std::move(embedding));
  for (std::int64_t i = 0; i < p.encoder.layers; ++i) layers.add(encoder_block(p, i == 0, i + 1 == p.encoder.layers));
  for (std::int64_t i = 0; i < p.decoder.layers; ++i) layers.add(decoder_block(p, i == 0, i + 1 == p.decoder.layers));
  LayerKind head = make_kind("head", LayerRole::head, p.hidden, TokenStream::decoder);
  if (p.form.norms_first) head.operators.push_back(norm("head.norm", p.hidden, 2));
  add_logits(head.operators, p.hidden, p.vocabulary, p.tied);
  layers.add(std::move(head));
}

Form form_of(const std::string& family) {
  if (family == "bart") return {.extra_positions = 2, .embedding_norm = true};
  if (family == "mbart") return {.norms_first = true, .extra_positions = 2, .embedding_norm = true};
  if (family == "marian") return {.extra_positions = -1};
  if (family == "whisper") return {.norms_first = true, .frames = true};
  return {.norms_first = true, .extra_positions = -1};  // pegasus, m2m_100
}

}  // namespace

void read_bart(Fields& f, Model& model) {
  EncoderDecoder p;
  p.form = form_of(model.family);
  p.hidden = f.integer({"d_model"}, SizeLimits::width);
  p.vocabulary = f.integer({"vocab_size"}, SizeLimits::vocabulary);
  p.encoder = read_stack(f, "encoder", p.hidden);
  p.decoder = read_stack(f, "decoder", p.hidden);
  read_positions(f, p);
  p.tied = f.flag("tie_word_embeddings", true);
  p.dropout = f.positive_rate({"dropout"}, p.form.frames ? 0 : 0.1);
  p.inner_dropout = f.positive_rate({"activation_dropout"}, 0);
  const std::int64_t other = f.integer_or({"decoder_vocab_size"}, SizeLimits::vocabulary, p.vocabulary, "vocab_size");
  if (f.ok() && other != p.vocabulary) f.fail("decoder_vocab_size", other, "vocab_size: both stacks share one table");
  f.reader().ignore({"activation_function",
                     "scale_embedding",
                     "encoder_layerdrop",
                     "decoder_layerdrop",
                     "max_position_embeddings",
                     "share_encoder_decoder_embeddings",
                     "static_position_embeddings",
                     "normalize_before",
                     "normalize_embedding",
                     "add_final_layer_norm",
                     "add_bias_logits",
                     "num_hidden_layers",
                     "classif_dropout",
                     "extra_pos_embeddings",
                     "force_bos_token_to_be_generated",
                     "forced_eos_token_id",
                     "forced_bos_token_id",
                     "classifier_proj_size",
                     "apply_spec_augment",
                     "mask_time_prob",
                     "mask_time_length",
                     "mask_time_min_masks",
                     "mask_feature_prob",
                     "mask_feature_length",
                     "mask_feature_min_masks",
                     "median_filter_width",
                     "use_weighted_layer_sum",
                     "suppress_tokens",
                     "max_source_positions",
                     "gradient_checkpointing"});
  if (f.ok()) build(p, model);
}

}  // namespace espalier::model
