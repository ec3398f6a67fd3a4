// SPDX-License-Identifier: Apache-2.0
// Reads DeBERTa V2 and V3 (He et al. 2021, arXiv 2006.03654 and 2111.09543): BERT whose scores have two additional
// terms. One multiplies a token's query with the keys of relative positions, the other a token's key with their
// queries. Both come from one table of R = 2 · position_buckets rows that all layers share.
//
//   block   4h² + 4h + 2hf + f + h + 4h, without share_att_key another 2h² + 2h; the terms cost 2·T·R·h each and no
//           weights
//   table   R·h (and its norm 2h), counted with the embedding; with conv_kernel_size the first block also has a
//           convolution k·h² + 3h.
//
// The work omits projections of that table, once a micro-batch. The memory omits its copies on later stages.
#include <algorithm>
#include <string>
#include <utility>

#include "model/family.h"

namespace espalier::model {
namespace {

struct Deberta {
  std::int64_t layers = 0, hidden = 0, ffn = 0, vocabulary = 0, positions = 0, types = 0, width = 0;
  std::int64_t rows = 0;  ///< R; 0 = no relative positions
  std::int64_t taps = 0;  ///< taps of the convolution
  int terms = 0;          ///< additional terms of the scores
  bool shared_keys = false, table_norm = false, dropout = false, legacy = true, tied = true;
  AttentionShape attention;
};

/// Reads `key` as a list of words, or as one text with bars between them.
std::vector<std::string> words_of(Fields& f, std::string_view key) {
  std::vector<std::string> words;
  const base::Node* node = f.reader().find(key);
  f.reader().ignore({key});
  if (node == nullptr || node->kind == base::NodeKind::null) return words;
  if (node->kind == base::NodeKind::sequence)
    for (const base::Node& item : node->items) words.push_back(item.text);
  else
    for (std::size_t at = 0; at <= node->text.size();) {
      const std::size_t bar = std::min(node->text.find('|', at), node->text.size());
      words.push_back(node->text.substr(at, bar - at));
      at = bar + 1;
    }
  return words;
}

bool holds(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

void read_positions(Fields& f, Deberta& d) {
  const std::int64_t most = f.integer_or({"max_position_embeddings"}, SizeLimits::tokens, 512);
  if (f.flag("position_biased_input", true)) d.positions = most;
  const auto terms = words_of(f, "pos_att_type"), norms = words_of(f, "norm_rel_ebd");
  d.shared_keys = f.reader().optional_bool("share_att_key", false);
  const std::int64_t buckets = f.reader().optional_int("position_buckets", -1, SizeLimits::tokens, -1);
  const std::int64_t farthest = f.reader().optional_int("max_relative_positions", -1, SizeLimits::tokens, -1);
  d.table_norm = holds(norms, "layer_norm");
  for (const std::string& term : terms)
    if (f.ok() && term != "c2p" && term != "p2c") f.fail("pos_att_type", term.substr(0, 60), "c2p or p2c");
  if (!f.flag("relative_attention", false)) return;
  d.rows = 2 * (buckets > 0 ? buckets : farthest > 0 ? farthest : most);
  d.terms = static_cast<int>(holds(terms, "c2p")) + static_cast<int>(holds(terms, "p2c"));
  f.note(ModelNote::Kind::left_out, "relative_attention",
         "relative_attention: projecting the table of relative positions, once per micro-batch, is not counted as work");
}

LayerKind embedding(const Deberta& d) {
  LayerKind kind = make_kind("embedding", LayerRole::embedding, d.hidden);
  auto& list = kind.operators;
  add_token_embedding(list, d.vocabulary, d.width);
  if (d.positions > 0) add_extra_embedding(list, "position", d.positions, d.width);
  if (d.types > 0) add_extra_embedding(list, "type", d.types, d.width);
  if (d.width != d.hidden) list.push_back(linear("embed.project", d.width, d.hidden, TpSplit::none, false));
  list.push_back(norm("embed.norm", d.hidden, 2));
  if (d.dropout) list.push_back(dropout("embed.dropout", d.hidden));
  Operator relative = pool("embed.relative", d.hidden);  // no work per token
  relative.parameters = relative.parameters_unsplit = times(d.rows, d.hidden) + (d.table_norm ? 2 * d.hidden : 0);
  if (relative.parameters > 0) list.push_back(std::move(relative));
  return kind;
}

/// Returns a product of every head's queries (or keys) with R vectors that are not weights.
Operator term(const std::string& name, const Deberta& d) {
  Operator op = linear(name, d.attention.head_dim, times(d.rows, d.attention.heads), TpSplit::column, false);
  op.parameters = op.parameters_unsplit = 0;
  return op;
}

void add_scores(Operators& list, const Deberta& d) {
  Operators attention;
  add_attention(attention, "attn", d.attention);
  for (Operator& op : attention) {
    if (op.kind == OperatorKind::attention) {
      for (int i = 0; i < d.terms; ++i) list.push_back(term("attn.term" + std::to_string(i + 1), d));
      if (d.rows > 0 && !d.shared_keys) {
        op.parameters = d.terms * (times(d.hidden, d.hidden) + d.hidden);  // projections of the table
      }
    }
    list.push_back(std::move(op));
  }
}

LayerKind block(const Deberta& d, bool first) {
  const bool convolves = first && d.taps > 0;
  LayerKind kind = make_kind(convolves ? "encoder.first" : "encoder", LayerRole::block, d.hidden);
  auto& list = kind.operators;
  add_scores(list, d);
  if (d.dropout) list.push_back(dropout("attn.dropout", d.hidden));
  list.push_back(residual("attn.residual", d.hidden));
  list.push_back(norm("attn.norm", d.hidden, 2));
  add_mlp(list, "mlp.", {d.hidden, d.ffn, false, true, true, false});
  if (d.dropout) list.push_back(dropout("mlp.dropout", d.hidden));
  list.push_back(residual("mlp.residual", d.hidden));
  list.push_back(norm("mlp.norm", d.hidden, 2));
  if (!convolves) return kind;
  list.push_back(linear("conv", times(d.taps, d.hidden), d.hidden, TpSplit::none, true));
  list.push_back(activation("conv.activation", d.hidden, d.hidden, TpSplit::none));
  list.push_back(residual("conv.residual", d.hidden));
  list.push_back(norm("conv.norm", d.hidden, 2));
  return kind;
}

LayerKind head(const Deberta& d) {
  LayerKind kind = make_kind("head", LayerRole::head, d.hidden);
  const std::int64_t width = d.legacy ? d.width : d.hidden;
  kind.operators = {linear("head.transform", d.hidden, width, TpSplit::none, true),
                    activation("head.activation", width, width, TpSplit::none), norm("head.norm", width, 2)};
  add_logits(kind.operators, width, d.vocabulary, d.tied, true);
  return kind;
}

}  // namespace

void read_deberta(Fields& f, Model& model) {
  Deberta d;
  d.hidden = f.integer({"hidden_size"}, SizeLimits::width);
  d.layers = f.integer({"num_hidden_layers"}, SizeLimits::layers);
  d.ffn = f.integer({"intermediate_size"}, SizeLimits::width);
  d.vocabulary = f.integer({"vocab_size"}, SizeLimits::vocabulary);
  d.width = f.reader().has("embedding_size") ? f.integer({"embedding_size"}, SizeLimits::width) : d.hidden;
  d.types = f.integer_or({"type_vocab_size"}, SizeLimits::vocabulary, 0, kFamilyDefault, 0);
  d.tied = f.flag("tie_word_embeddings", true);
  d.legacy = f.flag("legacy", true);
  d.dropout = f.positive_rate({"hidden_dropout_prob"}, 0.1);
  d.taps = f.reader().optional_int("conv_kernel_size", 0, 64, 0);
  if (f.reader().optional_int("conv_groups", 1, SizeLimits::width, 1) != 1) f.fail("conv_groups", "several", "one group");
  AttentionShape& a = d.attention;
  a.hidden = d.hidden;
  a.heads = a.kv_heads = f.integer({"num_attention_heads"}, SizeLimits::heads);
  f.require_divides("num_attention_heads", a.heads, "hidden_size", d.hidden);
  a.head_dim = std::max<std::int64_t>(1, d.hidden / a.heads);
  if (f.ok() && f.reader().optional_int("attention_head_size", 1, SizeLimits::head_dim, a.head_dim) != a.head_dim)
    f.fail("attention_head_size", "another width", "hidden_size / num_attention_heads");
  a.qkv_bias = a.out_bias = true;
  a.causal = false;
  a.score_dropout = f.positive_rate({"attention_probs_dropout_prob"}, 0.1);
  read_positions(f, d);
  f.reader().ignore({"hidden_act", "pooler_dropout", "pooler_hidden_act", "pooler_hidden_size", "conv_act", "conv_act_fn"});
  if (f.ok() && !d.legacy && d.width != d.hidden) f.fail("embedding_size", d.width, "hidden_size without legacy heads");
  if (!f.ok()) return;

  model.vocabulary = d.vocabulary;
  model.tied_embeddings = d.tied;
  model.max_positions = d.positions;
  LayerList layers(model);
  layers.add(embedding(d));
  for (std::int64_t i = 0; i < d.layers; ++i) layers.add(block(d, i == 0));
  layers.add(head(d));
}

}  // namespace espalier::model
