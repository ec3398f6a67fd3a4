// SPDX-License-Identifier: Apache-2.0
// Implements make_decoder, which makes a model from plain dimensions, for measured runs without a config.json.
#include <string>
#include <utility>

#include "model/fields.h"
#include "model/model_invariants.h"
#include "model/operators.h"

namespace espalier {
namespace {

using namespace model;

Error bad_shape(const std::string& name, const std::string& field, std::int64_t value, std::string expected) {
  return {ErrorKind::bad_input, name, field + " = " + std::to_string(value), std::move(expected), ""};
}

Status check_ranges(const DecoderShape& s, const std::string& name) {
  const struct {
    const char* field;
    std::int64_t value, low, high;
  } ranges[] = {
      {"layers", s.layers, 1, SizeLimits::layers},
      {"hidden", s.hidden, 1, SizeLimits::width},
      {"ffn", s.ffn, 1, SizeLimits::width},
      {"heads", s.heads, 1, SizeLimits::heads},
      {"kv_heads", s.kv_heads, 0, SizeLimits::heads},
      {"vocabulary", s.vocabulary, 1, SizeLimits::vocabulary},
      {"head_dim", s.head_dim, 0, SizeLimits::head_dim},
      {"experts", s.experts, 0, SizeLimits::experts},
      {"top_k", s.top_k, s.experts > 0 ? 1 : 0, s.experts > 0 ? s.experts : SizeLimits::experts},
      {"max_positions", s.max_positions, s.learned_positions ? 1 : 0, SizeLimits::tokens},
  };
  for (const auto& r : ranges) {
    if (r.value < r.low || r.value > r.high) {
      return bad_shape(name, r.field, r.value, "a value from " + std::to_string(r.low) + " to " + std::to_string(r.high));
    }
  }
  if (s.kv_heads > 0 && s.heads % s.kv_heads != 0) {
    return bad_shape(name, "kv_heads", s.kv_heads, "a divisor of heads = " + std::to_string(s.heads));
  }
  if (s.head_dim == 0 && s.hidden % s.heads != 0) {
    return bad_shape(name, "heads", s.heads, "a divisor of hidden = " + std::to_string(s.hidden));
  }
  return {};
}

AttentionShape attention_of(const DecoderShape& s) {
  AttentionShape a;
  a.hidden = s.hidden;
  a.heads = s.heads;
  a.kv_heads = s.kv_heads > 0 ? s.kv_heads : s.heads;
  a.head_dim = s.head_dim > 0 ? s.head_dim : s.hidden / s.heads;
  a.qkv_bias = a.out_bias = s.biases;
  a.rotary_dim = s.rotary ? a.head_dim : 0;
  a.causal = !s.encoder_only;
  a.qk_norm = s.qk_norm;
  a.score_dropout = s.dropout;
  return a;
}

int norm_weights(const DecoderShape& s) { return s.rms_norm ? 1 : 2; }

LayerKind embedding(const DecoderShape& s) {
  LayerKind kind = make_kind("embedding", LayerRole::embedding, s.hidden);
  add_token_embedding(kind.operators, s.vocabulary, s.hidden);
  if (s.learned_positions) add_extra_embedding(kind.operators, "position", s.max_positions, s.hidden);
  if (s.dropout) kind.operators.push_back(dropout("embed.dropout", s.hidden));
  return kind;
}

LayerKind block(const DecoderShape& s) {
  LayerKind kind = make_kind(s.encoder_only ? "encoder" : "decoder", LayerRole::block, s.hidden);
  if (s.experts > 0) kind.name += ".moe";
  auto& list = kind.operators;
  list.push_back(norm("attn.norm", s.hidden, norm_weights(s)));
  add_attention(list, "attn", attention_of(s));
  if (s.dropout) list.push_back(dropout("attn.dropout", s.hidden));
  list.push_back(residual("attn.residual", s.hidden));
  list.push_back(norm("mlp.norm", s.hidden, norm_weights(s)));
  if (s.experts > 0) {
    add_experts(list, {s.hidden, s.ffn, s.experts, s.top_k, s.gated, s.biases, 0});
  } else {
    add_mlp(list, "mlp.", {s.hidden, s.ffn, s.gated, s.biases, s.biases, false});
  }
  if (s.dropout) list.push_back(dropout("mlp.dropout", s.hidden));
  list.push_back(residual("mlp.residual", s.hidden));
  return kind;
}

LayerKind head(const DecoderShape& s) {
  LayerKind kind = make_kind("head", LayerRole::head, s.hidden);
  kind.operators.push_back(norm("head.norm", s.hidden, norm_weights(s)));
  add_logits(kind.operators, s.hidden, s.vocabulary, s.tied);
  return kind;
}

}  // namespace

Result<Model> make_decoder(const DecoderShape& shape, const std::string& name) {
  if (Status status = check_ranges(shape, name); !status.ok()) return status.error();
  Model result;
  result.name = name;
  result.family = shape.encoder_only ? "encoder" : "decoder";
  result.vocabulary = shape.vocabulary;
  result.tied_embeddings = shape.tied;
  result.max_positions = shape.learned_positions ? shape.max_positions : 0;
  LayerList layers(result);
  layers.add(embedding(shape));
  for (std::int64_t i = 0; i < shape.layers; ++i) layers.add(block(shape));
  layers.add(head(shape));
  model::check_model(result);
  return result;
}

}  // namespace espalier
