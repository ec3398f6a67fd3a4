// SPDX-License-Identifier: Apache-2.0
// BERT (Devlin et al. 2018): encoder with LayerNorm after each residual, trained on masked tokens.
//
//   embeddings  V·h + P·h + T·h + 2h          V vocabulary, P positions, T token types
//   block       4h² + 4h + 2hf + f + h + 4h
//   head        transform h² + h, LayerNorm 2h, tied decoder with bias V;
//               for the architecture BertForPreTraining also pooler h² + h and next-sentence classifier 2h + 2
#include <string>
#include <utility>

#include "model/family.h"

namespace espalier::model {
namespace {

struct Bert {
  std::int64_t layers = 0, hidden = 0, ffn = 0, vocabulary = 0, positions = 0, types = 0;
  AttentionShape attention;
  bool hidden_dropout = false, tied = true, next_sentence = false;
};

LayerKind embedding(const Bert& b) {
  LayerKind kind = make_kind("embedding", LayerRole::embedding, b.hidden);
  auto& list = kind.operators;
  add_token_embedding(list, b.vocabulary, b.hidden);
  add_extra_embedding(list, "position", b.positions, b.hidden);
  add_extra_embedding(list, "type", b.types, b.hidden);
  list.push_back(norm("embed.norm", b.hidden, 2));
  if (b.hidden_dropout) list.push_back(dropout("embed.dropout", b.hidden));
  return kind;
}

LayerKind block(const Bert& b) {
  LayerKind kind = make_kind("encoder", LayerRole::block, b.hidden);
  auto& list = kind.operators;
  add_attention(list, "attn", b.attention);
  if (b.hidden_dropout) list.push_back(dropout("attn.dropout", b.hidden));
  list.push_back(residual("attn.residual", b.hidden));
  list.push_back(norm("attn.norm", b.hidden, 2));
  add_mlp(list, "mlp.", {b.hidden, b.ffn, false, true, true, false});
  if (b.hidden_dropout) list.push_back(dropout("mlp.dropout", b.hidden));
  list.push_back(residual("mlp.residual", b.hidden));
  list.push_back(norm("mlp.norm", b.hidden, 2));
  return kind;
}

LayerKind head(const Bert& b) {
  LayerKind kind = make_kind("head", LayerRole::head, b.hidden);
  auto& list = kind.operators;
  if (b.next_sentence) {  // works on one token of the sample: parameters, hardly any work
    Operator pooler = pool("head.pooler", b.hidden);
    pooler.parameters = pooler.parameters_unsplit = times(b.hidden, b.hidden) + b.hidden + 2 * b.hidden + 2;
    list.push_back(std::move(pooler));
  }
  list.push_back(linear("head.transform", b.hidden, b.hidden, TpSplit::none, true));
  list.push_back(activation("head.activation", b.hidden, b.hidden, TpSplit::none));
  list.push_back(norm("head.norm", b.hidden, 2));
  add_logits(list, b.hidden, b.vocabulary, b.tied, true);
  return kind;
}

/// The training objective follows architectures[0]; anything but BertForPreTraining is taken as masked-token training.
bool wants_next_sentence(Fields& f) {
  const base::Node* list = f.reader().find("architectures");
  const std::string name = list != nullptr && !list->items.empty() ? list->items.front().text : "";
  if (name != "BertForPreTraining" && name != "BertForMaskedLM") {
    f.note(ModelNote::Kind::derived, "architectures", "masked-token training (BertForMaskedLM) is planned");
  }
  return name == "BertForPreTraining";
}

}  // namespace

void read_bert(Fields& f, Model& model) {
  Bert b;
  b.hidden = f.integer({"hidden_size"}, SizeLimits::width);
  b.layers = f.integer({"num_hidden_layers"}, SizeLimits::layers);
  b.ffn = f.integer({"intermediate_size"}, SizeLimits::width);
  b.vocabulary = f.integer({"vocab_size"}, SizeLimits::vocabulary);
  b.positions = f.integer_or({"max_position_embeddings"}, SizeLimits::tokens, 512);
  b.types = f.integer_or({"type_vocab_size"}, SizeLimits::vocabulary, 2);
  b.tied = f.flag("tie_word_embeddings", true);
  b.hidden_dropout = f.positive_rate({"hidden_dropout_prob"}, 0.1);
  b.next_sentence = wants_next_sentence(f);
  AttentionShape& a = b.attention;
  a.hidden = b.hidden;
  a.heads = a.kv_heads = f.integer({"num_attention_heads"}, SizeLimits::heads);
  f.require_divides("num_attention_heads", a.heads, "hidden_size", b.hidden);
  a.head_dim = b.hidden / a.heads;
  a.qkv_bias = a.out_bias = true;
  a.causal = f.reader().optional_bool("is_decoder", false);
  a.score_dropout = f.positive_rate({"attention_probs_dropout_prob"}, 0.1);
  f.reader().ignore({"hidden_act", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
                     "pooler_type", "directionality"});
  if (f.reader().optional_bool("add_cross_attention", false)) {
    f.fail("add_cross_attention", "true", "an encoder without cross-attention", "encoder-decoder models: use the t5 family");
  }
  if (!f.ok()) return;

  model.vocabulary = b.vocabulary;
  model.tied_embeddings = b.tied;
  model.max_positions = b.positions;
  LayerList layers(model);
  layers.add(embedding(b));
  for (std::int64_t i = 0; i < b.layers; ++i) layers.add(block(b));
  layers.add(head(b));
}

}  // namespace espalier::model
