// SPDX-License-Identifier: Apache-2.0
// Converts the model that Megatron-LM's arguments describe to a config.json of the family with the same blocks:
//
//   swiglu, RMSNorm, rope, no bias in linears   llama; qwen2 with --add-qkv-bias, qwen3 with --qk-layernorm; with
//                                               experts mixtral, qwen3_moe
//   gelu, LayerNorm, biases, learned positions  gpt2
//   gelu, LayerNorm, biases, rope               gpt_neox
#include <algorithm>

#include "base/document.h"
#include "base/format.h"
#include "exchange/megatron_import.h"

namespace espalier::exchange {
namespace {

constexpr std::int64_t kMostWidth = 1 << 24;
constexpr std::int64_t kMostHeads = 1 << 16;

struct MegatronShape {
  std::int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kv_heads = 0, channels = 0, vocabulary = 0, positions = 0;
  std::int64_t experts = 0, expert_ffn = 0, topk = 0;
  double rotary_base = 10000, epsilon = 1e-5, attention_dropout = 0.1, hidden_dropout = 0.1, rotary_share = 1;
  bool swiglu = false, rms = false, rope = false, learned = false, bias = true, qkv_bias = false, qk_norm = false, tied = true;
  std::string why_not;
};

void read_vocabulary(SettingReader& reader, MegatronShape& s) {
  s.vocabulary = reader.integer("vocab_size", 0, kMostWidth, 0, "vocabulary");
  const std::int64_t padded = reader.integer("padded_vocab_size", 0, kMostWidth, 0, "vocabulary, padded");
  if (s.vocabulary == 0) s.vocabulary = padded;
  if (s.vocabulary == 0) s.why_not = "no --vocab-size: Megatron-LM takes it from the tokenizer";
}

void read_positions(SettingReader& reader, MegatronShape& s) {
  const std::string kind =
      reader.word("position_embedding_type", {"learned_absolute", "rope", "yarn", "none", "relative", "mrope"},
                  "learned_absolute", "positions");
  const bool older = reader.flag("use_rotary_position_embeddings", false, "rotary positions (older flag)");
  s.rope = kind == "rope" || kind == "yarn" || older;
  s.learned = !s.rope && kind == "learned_absolute";
  if (!s.rope && !s.learned) s.why_not = cat("--position-embedding-type ", kind);
  s.rotary_base = reader.real("rotary_base", 1, 1e12, 10000, "rotary base");
  s.rotary_share = reader.real("rotary_percent", 0, 1, 1, "share of a head that is rotated");
}

void read_attention(SettingReader& reader, MegatronShape& s) {
  s.heads = reader.integer("num_attention_heads", 0, kMostHeads, 0, "heads");
  const bool grouped = reader.flag("group_query_attention", false, "grouped queries");
  const std::int64_t groups = reader.integer("num_query_groups", 1, kMostHeads, 1, "key and value heads");
  s.kv_heads = grouped ? groups : s.heads;
  s.channels = reader.integer("kv_channels", 0, kMostWidth, 0, "size of a head (0: hidden / heads)");
  s.qkv_bias = reader.flag("add_qkv_bias", false, "bias on queries, keys and values");
  s.qk_norm = reader.flag("qk_layernorm", false, "norm of queries and keys");
  s.attention_dropout = reader.real("attention_dropout", 0, 1, 0.1, "dropout of scores");
  s.hidden_dropout = reader.real("hidden_dropout", 0, 1, 0.1, "dropout of the residual stream");
}

/// Returns whether a frequency means every layer: "1", or a list of ones as Python writes it: "([1]*94)", "[1,1]",
/// "[1]*3+[1]*91".
bool in_every_layer(const std::string& frequency) {
  if (frequency == "1") return true;
  std::size_t ones = 0;
  bool counts = false;  // after '*'
  for (std::size_t i = 0; i < frequency.size(); ++i) {
    const char c = frequency[i];
    const bool digit = c >= '0' && c <= '9';
    if (c == '*') counts = true;
    if (c == '[' || c == '+') counts = false;
    if (!digit && std::string_view("[]()*+, '\"").find(c) == std::string_view::npos) return false;
    if (!digit || counts) continue;
    if (c != '1' || (i + 1 < frequency.size() && frequency[i + 1] >= '0' && frequency[i + 1] <= '9')) return false;
    ++ones;
  }
  return ones > 0 && frequency.find('[') != std::string::npos;
}

void read_experts(SettingReader& reader, MegatronShape& s) {
  s.experts = reader.integer("num_experts", 0, kMostHeads, 0, "experts");
  s.topk = reader.integer("moe_router_topk", 1, kMostHeads, 2, "experts per token");
  s.expert_ffn = reader.integer("moe_ffn_hidden_size", 0, kMostWidth, 0, "width of an expert (0: ffn-hidden-size)");
  const std::string frequency = reader.text("moe_layer_freq", "1", "interval of layers with experts");
  if (s.experts > 0 && !in_every_layer(frequency)) s.why_not = cat(reader.spelled("moe_layer_freq"), " ", frequency);
}

MegatronShape read_shape(SettingReader& reader, std::int64_t layers) {
  MegatronShape s;
  s.layers = layers;
  s.hidden = reader.integer("hidden_size", 0, kMostWidth, 0, "hidden size");
  s.swiglu = reader.flag("swiglu", false, "gated MLP");
  s.ffn = reader.integer("ffn_hidden_size", 0, kMostWidth, 0, "width of the MLP (0: from hidden-size)");
  s.rms = reader.word("normalization", {"LayerNorm", "RMSNorm"}, "LayerNorm", "norm") == "RMSNorm";
  s.bias = reader.flag("add_bias_linear", true, "biases in linears");
  // Dumps print the fusions of both activations. validate_args switches that of GELU off where there is no bias.
  if (s.swiglu || !s.bias) reader.pass_over("bias_gelu_fusion", "nothing to fuse: no bias before a GELU");
  if (!s.swiglu) reader.pass_over("bias_swiglu_fusion", "for another activation");
  s.tied = !reader.flag("untie_embeddings_and_output_weights", false, "untied embedding and head");
  s.positions = reader.integer("max_position_embeddings", 0, kMostWidth, 0, "positions");
  s.epsilon = reader.real("norm_epsilon", 0, 1, 1e-5, "epsilon of norms");
  read_vocabulary(reader, s);
  read_positions(reader, s);
  read_attention(reader, s);
  read_experts(reader, s);
  // The default is 4h, or 8h/3 with a gated MLP, in multiples of 64 (arguments.py, validate_args).
  if (s.ffn == 0)
    s.ffn = s.swiglu ? static_cast<std::int64_t>(4 * static_cast<double>(s.hidden) * 2 / 3 / 64) * 64 : 4 * s.hidden;
  if (s.hidden == 0 || s.heads == 0 || s.layers == 0) s.why_not = "no --num-layers, --hidden-size or --num-attention-heads";
  return s;
}

/// Returns the family; empty where no family here has such blocks.
std::string family_of(const MegatronShape& s) {
  if (s.swiglu && s.rms && s.rope && !s.bias) {
    if (s.experts > 0) return s.qkv_bias ? "" : s.qk_norm ? "qwen3_moe" : "mixtral";
    if (s.qk_norm) return s.qkv_bias ? "" : "qwen3";
    return s.qkv_bias ? "qwen2" : "llama";
  }
  const bool plain = !s.swiglu && !s.rms && s.bias && s.experts == 0 && s.kv_heads == s.heads && !s.qk_norm &&
                     (s.channels == 0 || s.channels * s.heads == s.hidden);
  return !plain ? "" : s.learned ? "gpt2" : s.rope ? "gpt_neox" : "";
}

void write_llama(base::JsonWriter& w, const MegatronShape& s, const std::string& family) {
  const bool sparse = family == "qwen3_moe";
  w.key("hidden_size").value(s.hidden);
  w.key("intermediate_size").value(family == "mixtral" && s.expert_ffn > 0 ? s.expert_ffn : s.ffn);
  w.key("num_hidden_layers").value(s.layers);
  w.key("num_attention_heads").value(s.heads);
  w.key("num_key_value_heads").value(s.kv_heads);
  w.key("head_dim").value(s.channels > 0 ? s.channels : s.hidden / s.heads);
  if (s.positions > 0) w.key("max_position_embeddings").value(s.positions);
  w.key("rms_norm_eps").value(s.epsilon);
  w.key("rope_theta").value(s.rotary_base);
  w.key("attention_dropout").value(s.attention_dropout);
  if (family == "mixtral") w.key("num_local_experts").value(s.experts);
  if (sparse) w.key("num_experts").value(s.experts).key("moe_intermediate_size").value(s.expert_ffn > 0 ? s.expert_ffn : s.ffn);
  if (s.experts > 0) w.key("num_experts_per_tok").value(s.topk);
}

void write_gpt2(base::JsonWriter& w, const MegatronShape& s) {
  w.key("n_embd").value(s.hidden);
  w.key("n_inner").value(s.ffn);
  w.key("n_layer").value(s.layers);
  w.key("n_head").value(s.heads);
  w.key("n_positions").value(s.positions > 0 ? s.positions : 1024);
  w.key("attn_pdrop").value(s.attention_dropout);
  w.key("resid_pdrop").value(s.hidden_dropout);
  w.key("embd_pdrop").value(s.hidden_dropout);
}

void write_neox(base::JsonWriter& w, const MegatronShape& s) {
  w.key("hidden_size").value(s.hidden);
  w.key("intermediate_size").value(s.ffn);
  w.key("num_hidden_layers").value(s.layers);
  w.key("num_attention_heads").value(s.heads);
  if (s.positions > 0) w.key("max_position_embeddings").value(s.positions);
  w.key("rotary_pct").value(s.rotary_share);
  w.key("attention_dropout").value(s.attention_dropout);
  w.key("hidden_dropout").value(s.hidden_dropout);
}

std::string config_of(const MegatronShape& s, const std::string& family) {
  base::JsonWriter w;
  w.begin_object();
  w.key("model_type").value(family);
  if (s.vocabulary > 0) w.key("vocab_size").value(s.vocabulary);
  w.key("tie_word_embeddings").value(s.tied);
  if (family == "gpt2")
    write_gpt2(w, s);
  else if (family == "gpt_neox")
    write_neox(w, s);
  else
    write_llama(w, s, family);
  w.end_object();
  return w.text();
}

std::string of_no_family(const MegatronShape& s) {
  return cat("blocks of an unknown family: ", s.swiglu ? "gated" : "plain", " MLP, ", s.rms ? "RMSNorm" : "LayerNorm", ", ",
             s.rope ? "rotary" : "learned", " positions, ", s.bias ? "" : "no ", "biases", s.experts > 0 ? ", experts" : "",
             s.qk_norm ? ", norms of queries and keys" : "");
}

}  // namespace

MegatronModel megatron_model(SettingReader& reader, std::int64_t layers) {
  const MegatronShape s = read_shape(reader, layers);
  MegatronModel out;
  const auto size = [&](const char* key, std::int64_t value) {
    if (value > 0) out.sizes.emplace_back(key, value);
  };
  size("num_layers", s.layers);
  size("hidden_size", s.hidden);
  size("num_attention_heads", s.heads);
  const std::string family = family_of(s);
  out.why_not = s.why_not.empty() && family.empty() ? of_no_family(s) : s.why_not;
  if (!out.why_not.empty() || s.hidden < s.heads) return out;
  out.config = config_of(s, family);
  return out;
}

}  // namespace espalier::exchange
