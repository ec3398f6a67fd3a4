// SPDX-License-Identifier: Apache-2.0
// Reads BERT (Devlin et al. 2018): encoder with LayerNorm after each residual, trained on masked tokens.
//
//   embeddings  V·h + P·h + T·h + 2h          V vocabulary, P positions, T token types
//   block       4h² + 4h + 2hf + f + h + 4h
//   head        transform h² + h, LayerNorm 2h, tied decoder with bias V. The architecture BertForPreTraining also
//               has a pooler h² + h and a next-sentence classifier 2h + 2.
//
// ALBERT (Lan et al. 2019) has a narrower embedding, e·(V + P + T) + 2e and e·h + h. Blocks use weights again: all
// layers of a group share those of its blocks. Parameters belong to the first use. Later uses only have the operators
// ("again.", operators.h), and a pipeline is refused for them.
#include <algorithm>
#include <string>
#include <utility>

#include "model/family.h"

namespace espalier::model {
namespace {

struct Bert {
  std::int64_t layers = 0, hidden = 0, ffn = 0, vocabulary = 0, positions = 0, types = 0;
  std::int64_t embedding_width = 0;  ///< electra: narrower than the model, projected up
  bool discriminator = false;        ///< electra's objective: was this token replaced?
  AttentionShape attention;
  bool hidden_dropout = false, tied = true, next_sentence = false;
};

LayerKind embedding(const Bert& b) {
  LayerKind kind = make_kind("embedding", LayerRole::embedding, b.hidden);
  auto& list = kind.operators;
  add_token_embedding(list, b.vocabulary, b.embedding_width);
  add_extra_embedding(list, "position", b.positions, b.embedding_width);
  if (b.types > 0) add_extra_embedding(list, "type", b.types, b.embedding_width);
  list.push_back(norm("embed.norm", b.embedding_width, 2));
  if (b.hidden_dropout) list.push_back(dropout("embed.dropout", b.embedding_width));
  if (b.embedding_width != b.hidden) list.push_back(linear("embed.project", b.embedding_width, b.hidden, TpSplit::none, true));
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
  const std::int64_t width = b.discriminator ? b.hidden : b.embedding_width;
  list.push_back(linear("head.transform", b.hidden, width, TpSplit::none, true));
  list.push_back(activation("head.activation", width, width, TpSplit::none));
  if (b.discriminator) {
    list.push_back(linear("head.logits", b.hidden, 1, TpSplit::none, true));
    list.push_back(cross_entropy(1, TpSplit::none));
    return kind;
  }
  list.push_back(norm("head.norm", width, 2));
  add_logits(list, width, b.vocabulary, b.tied, true);
  return kind;
}

/// Returns whether the objective is BertForPreTraining, from architectures[0]. Any other is taken as masked-token
/// training.
bool wants_next_sentence(Fields& f) {
  const base::Node* list = f.reader().find("architectures");
  const std::string name = list != nullptr && !list->items.empty() ? list->items.front().text : "";
  if (name != "BertForPreTraining" && name != "BertForMaskedLM") {
    f.note(ModelNote::Kind::derived, "architectures", "masked-token training (BertForMaskedLM) is planned");
  }
  return name == "BertForPreTraining";
}

}  // namespace

namespace {

void build(const Bert& b, Model& model) {
  model.vocabulary = b.vocabulary;
  model.tied_embeddings = b.tied && !b.discriminator;
  LayerList layers(model);
  layers.add(embedding(b));
  for (std::int64_t i = 0; i < b.layers; ++i) layers.add(block(b));
  layers.add(head(b));
}

/// Describes the layers of ALBERT: consecutive groups of blocks that run repeatedly.
struct AlbertGroups {
  std::int64_t count = 1, inner = 1;
};

void build_in_groups(const Bert& b, const AlbertGroups& g, Model& model) {
  model.vocabulary = b.vocabulary;
  model.tied_embeddings = b.tied;
  LayerKind again = block(b);
  again.name = "encoder.again";
  for (Operator& op : again.operators) use_again(op);
  LayerList layers(model);
  layers.add(embedding(b));
  std::int64_t group = -1;
  for (std::int64_t i = 0; i < b.layers; ++i) {
    const bool first = i * g.count / b.layers > group;
    if (first) ++group;
    for (std::int64_t j = 0; j < g.inner; ++j) layers.add(first ? block(b) : again);
  }
  layers.add(head(b));
}

std::string first_architecture(Fields& f) {
  const base::Node* list = f.reader().find("architectures");
  return list != nullptr && !list->items.empty() ? list->items.front().text : "";
}

}  // namespace

/// Reads bert, and families of its shape: roberta, xlm-roberta, camembert (whose position ids begin after the padding
/// id), ernie, electra.
void read_bert(Fields& f, Model& model) {
  Bert b;
  b.hidden = f.integer({"hidden_size"}, SizeLimits::width);
  b.layers = f.integer({"num_hidden_layers"}, SizeLimits::layers);
  b.ffn = f.integer({"intermediate_size"}, SizeLimits::width);
  b.vocabulary = f.integer({"vocab_size"}, SizeLimits::vocabulary);
  b.positions = f.integer_or({"max_position_embeddings"}, SizeLimits::tokens, 512);
  b.types = f.integer_or({"type_vocab_size"}, SizeLimits::vocabulary, 2, kFamilyDefault, 0);
  b.embedding_width = b.hidden;
  b.tied = f.flag("tie_word_embeddings", true);
  b.hidden_dropout = f.positive_rate({"hidden_dropout_prob"}, 0.1);
  if (model.family == "electra") {
    b.embedding_width = f.integer_or({"embedding_size"}, SizeLimits::width, 128);
    b.discriminator = first_architecture(f) != "ElectraForMaskedLM";
    f.reader().ignore({"summary_last_dropout"});
  } else if (model.family == "bert") {
    b.next_sentence = wants_next_sentence(f);
  }
  if (f.reader().optional_bool("use_task_id", false)) f.fail("use_task_id", "true", "no embedding of tasks");
  f.reader().ignore({"task_type_vocab_size"});
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

  const bool offset = model.family == "roberta" || model.family == "xlm-roberta" || model.family == "camembert";
  model.max_positions = b.positions - (offset && b.positions > 2 ? 2 : 0);
  build(b, model);
}

void read_distilbert(Fields& f, Model& model) {
  Bert b;
  b.hidden = b.embedding_width = f.integer({"dim"}, SizeLimits::width);
  b.layers = f.integer({"n_layers"}, SizeLimits::layers);
  b.ffn = f.integer({"hidden_dim"}, SizeLimits::width);
  b.vocabulary = f.integer({"vocab_size"}, SizeLimits::vocabulary);
  b.positions = f.integer_or({"max_position_embeddings"}, SizeLimits::tokens, 512);
  b.tied = f.flag("tie_word_embeddings", true);
  b.hidden_dropout = f.positive_rate({"dropout"}, 0.1);
  AttentionShape& a = b.attention;
  a.hidden = b.hidden;
  a.heads = a.kv_heads = f.integer({"n_heads"}, SizeLimits::heads);
  f.require_divides("n_heads", a.heads, "dim", b.hidden);
  a.head_dim = b.hidden / a.heads;
  a.qkv_bias = a.out_bias = true;
  a.causal = false;
  a.score_dropout = f.positive_rate({"attention_dropout"}, 0.1);
  f.reader().ignore({"activation", "sinusoidal_pos_embds", "qa_dropout", "seq_classif_dropout"});
  if (!f.ok()) return;
  model.max_positions = b.positions;
  build(b, model);
}

void read_albert(Fields& f, Model& model) {
  Bert b;
  b.hidden = f.integer_or({"hidden_size"}, SizeLimits::width, 4096);
  b.embedding_width = f.integer_or({"embedding_size"}, SizeLimits::width, 128);
  b.layers = f.integer_or({"num_hidden_layers"}, SizeLimits::layers, 12);
  b.ffn = f.integer_or({"intermediate_size"}, SizeLimits::width, 16384);
  b.vocabulary = f.integer_or({"vocab_size"}, SizeLimits::vocabulary, 30000);
  b.positions = f.integer_or({"max_position_embeddings"}, SizeLimits::tokens, 512);
  b.types = f.integer_or({"type_vocab_size"}, SizeLimits::vocabulary, 2, kFamilyDefault, 0);
  b.tied = f.flag("tie_word_embeddings", true);
  b.hidden_dropout = f.positive_rate({"hidden_dropout_prob"}, 0);
  b.next_sentence = first_architecture(f) == "AlbertForPreTraining";
  AlbertGroups g;
  g.count = f.integer_or({"num_hidden_groups"}, SizeLimits::layers, 1);
  g.inner = f.integer_or({"inner_group_num"}, 64, 1);
  if (f.ok() && (g.count > b.layers || b.layers * g.inner > SizeLimits::layers))
    f.fail("num_hidden_groups", g.count,
           "at most num_hidden_layers, and at most " + std::to_string(SizeLimits::layers) + " blocks in all");
  AttentionShape& a = b.attention;
  a.hidden = b.hidden;
  a.heads = a.kv_heads = f.integer_or({"num_attention_heads"}, SizeLimits::heads, 64);
  f.require_divides("num_attention_heads", a.heads, "hidden_size", b.hidden);
  a.head_dim = std::max<std::int64_t>(1, b.hidden / a.heads);
  a.qkv_bias = a.out_bias = true;
  a.causal = false;
  a.score_dropout = f.positive_rate({"attention_probs_dropout_prob"}, 0);
  f.reader().ignore({"hidden_act", "classifier_dropout_prob", "down_scale_factor", "gap_size", "net_structure_type",
                     "num_memory_blocks", "layers_to_keep"});
  if (!f.ok()) return;
  model.max_positions = b.positions;
  build_in_groups(b, g, model);
}

/// Reads ModernBERT (Warner et al. 2024): norms without shift before both halves (none before the first attention),
/// gated MLP, rotary positions, two windowed layers between full ones.
void read_modernbert(Fields& f, Model& model) {
  const std::int64_t hidden = f.integer({"hidden_size"}, SizeLimits::width),
                     count = f.integer({"num_hidden_layers"}, SizeLimits::layers);
  const std::int64_t ffn = f.integer({"intermediate_size"}, SizeLimits::width),
                     vocabulary = f.integer({"vocab_size"}, SizeLimits::vocabulary);
  const bool tied = f.flag("tie_word_embeddings", true), mlp_bias = f.flag("mlp_bias", false),
             head_bias = f.flag("decoder_bias", true);
  const bool transform_bias = f.flag("classifier_bias", false);
  const int weights = f.flag("norm_bias", false) ? 2 : 1;
  const std::int64_t window = f.integer_or({"local_attention"}, SizeLimits::tokens, 128);
  AttentionShape a;
  a.hidden = hidden;
  a.heads = a.kv_heads = f.integer({"num_attention_heads"}, SizeLimits::heads);
  f.require_divides("num_attention_heads", a.heads, "hidden_size", hidden);
  a.head_dim = a.rotary_dim = hidden / a.heads;
  a.qkv_bias = a.out_bias = f.flag("attention_bias", false);
  a.causal = false;
  a.score_dropout = f.positive_rate({"attention_dropout"}, 0);
  auto windows = windows_of_layer_types(f, count, window);
  const std::int64_t every = f.integer_or({"global_attn_every_n_layers"}, SizeLimits::layers, 3);
  f.reader().ignore({"hidden_activation", "initializer_cutoff_factor", "norm_eps", "embedding_dropout", "mlp_dropout",
                     "classifier_pooling", "classifier_activation", "deterministic_flash_attn", "sparse_prediction",
                     "sparse_pred_ignore_index", "sep_token_id", "global_rope_theta", "local_rope_theta", "reference_compile",
                     "repad_logits_with_grad"});
  model.context_length = f.context_length();
  if (!f.ok()) return;
  for (std::int64_t i = 0; windows.size() < static_cast<std::size_t>(count); ++i) windows.push_back(i % every == 0 ? 0 : window);

  model.vocabulary = vocabulary;
  model.tied_embeddings = tied;
  LayerList layers(model);
  LayerKind embedding = make_kind("embedding", LayerRole::embedding, hidden);
  add_token_embedding(embedding.operators, vocabulary, hidden);
  embedding.operators.push_back(norm("embed.norm", hidden, weights));
  layers.add(std::move(embedding));
  for (std::size_t i = 0; i < windows.size(); ++i) {
    LayerKind kind = make_kind(std::string("encoder") + (windows[i] > 0 ? ".sliding" : "") + (i == 0 ? ".first" : ""),
                               LayerRole::block, hidden);
    a.window = windows[i];
    Operators mixer, mlp;
    add_attention(mixer, "attn", a);
    add_mlp(mlp, "mlp.", {hidden, ffn, true, mlp_bias, mlp_bias, false});
    add_block(kind.operators, {hidden, weights, NormPlace::before, false}, std::move(mixer), std::move(mlp));
    if (i == 0) kind.operators.erase(kind.operators.begin());  // the embedding's norm replaces it
    layers.add(std::move(kind));
  }
  LayerKind last = make_kind("head", LayerRole::head, hidden);
  last.operators = {norm("head.final_norm", hidden, weights),
                    linear("head.transform", hidden, hidden, TpSplit::none, transform_bias),
                    activation("head.activation", hidden, hidden, TpSplit::none), norm("head.norm", hidden, weights)};
  add_logits(last.operators, hidden, vocabulary, tied, head_bias);
  layers.add(std::move(last));
}

}  // namespace espalier::model
