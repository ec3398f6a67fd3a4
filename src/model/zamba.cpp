// SPDX-License-Identifier: Apache-2.0
// Reads Zamba2 (Glorioso et al. 2024, arXiv 2411.15242): Mamba-2 blocks, some preceded by a transformer block that
// several of them share. The shared block reads the block's input and the embedded tokens, 2h features, and ends in a
// matrix of each place's own. Each place has low-rank adapters of its own on gate and up projection, and, if the file
// requests it, on queries, keys and values.
//
//   shared       attention 2h·(H + 2·KV)·d + H·d·h, d = 2h / H; MLP 3·h·f (+ biases); norms 2h + h;
//                once for each of num_mem_blocks.
//   each place   h·h + r·(h + 2f) (+ 3·r·4h), r adapter_rank, and the Mamba-2 block (state_space.h).
//
// Later uses have the operators of the first and none of its parameters ("again.", operators.h). A pipeline is
// refused for them. Facts: class Zamba2Model of Hugging Face transformers 5.23.
#include <algorithm>
#include <string>
#include <utility>

#include "model/family.h"
#include "model/state_space.h"

namespace espalier::model {
namespace {

struct Zamba {
  std::int64_t hidden = 0, ffn = 0, layers = 0, vocabulary = 0, rank = 0, shared = 1;
  bool bias = false, attention_adapters = false, tied = true;
  AttentionShape attention;
  Mamba2Shape mamba;
  std::vector<bool> hybrid;  ///< by layer
};

/// Adds a pair of matrices parallel to an operator, and the addition of its output.
void add_adapter(Operators& list, const std::string& name, std::int64_t in, std::int64_t rank, std::int64_t out,
                 std::int64_t width) {
  list.push_back(linear(name + "_down", in, rank, TpSplit::none, false));
  list.back().parallel = true;
  list.push_back(linear(name + "_up", rank, out, TpSplit::none, false));
  list.push_back(residual(name + "_add", width));
}

/// Returns the shared operators (with `again`, without their parameters) and this place's adapters among them.
Operators transformer(const Zamba& z, bool again) {
  Operators shared, list;
  shared.push_back(norm("attn.norm", 2 * z.hidden, 1));
  add_attention(shared, "attn", z.attention);
  Operator& out = shared.back();
  out.out = z.hidden;
  out.parameters = times(out.in, z.hidden);
  shared.push_back(norm("mlp.norm", z.hidden, 1));
  add_mlp(shared, "mlp.", {z.hidden, z.ffn, true, z.bias, z.bias, false});
  for (Operator& op : shared) {
    const std::string name = op.name;
    if (again) use_again(op);
    list.push_back(std::move(op));
    const std::int64_t both = 2 * z.hidden, heads = (z.attention.heads + 2 * z.attention.kv_heads) * z.attention.head_dim;
    if (name == "attn.qkv" && z.attention_adapters) add_adapter(list, "attn.adapter", both, 3 * z.rank, both, heads);
    if (name == "mlp.gate_up") add_adapter(list, "mlp.adapter", z.hidden, z.rank, 2 * z.ffn, 2 * z.ffn);
  }
  return list;
}

/// Returns a block. `first`: the first use of the shared block; `along`: features of the embedded tokens that later
/// blocks read.
LayerKind block(const Zamba& z, bool hybrid, bool first, std::int64_t along) {
  std::string name = hybrid ? (first ? "hybrid" : "hybrid.again") : "mamba2";
  if (along == 0) name += ".last";
  LayerKind kind = make_kind(std::move(name), LayerRole::block, z.hidden);
  kind.carried = along > 0 ? TokenStream::main : kind.carried;
  kind.carried_hidden = along;
  if (hybrid) {
    kind.operators = transformer(z, !first);
    kind.operators.push_back(linear("mixer.linear", z.hidden, z.hidden, TpSplit::none, false));
    kind.operators.push_back(residual("mixer.add", z.hidden));
  }
  kind.operators.push_back(norm("mixer.norm", z.hidden, 1));
  for (Operator& op : mamba2_mixer(z.mamba)) kind.operators.push_back(std::move(op));
  kind.operators.push_back(residual("mixer.residual", z.hidden));
  return kind;
}

std::vector<bool> read_hybrid(Fields& f, std::int64_t layers) {
  std::vector<bool> out(static_cast<std::size_t>(layers), false);
  const auto types = per_layer_list(f, "layers_block_type", layers, {"mamba", "linear_attention", "hybrid"});
  const auto listed = f.reader().optional_int_list("hybrid_layer_ids", 0, layers - 1);
  for (std::size_t i = 0; i < types.size(); ++i) out[i] = types[i] == "hybrid";
  for (std::size_t i = 0; i < listed.size() && types.empty(); ++i) out[static_cast<std::size_t>(listed[i])] = true;
  if (f.ok() && types.empty() && listed.empty())
    f.fail("layers_block_type", "no list", "one kind of block per layer, or hybrid_layer_ids");
  return out;
}

void read_mamba(Fields& f, Zamba& z) {
  Mamba2Shape& m = z.mamba;
  m.hidden = z.hidden;
  const std::int64_t expand = f.integer_or({"mamba_expand"}, 1024, 2);
  m.heads = f.integer_or({"n_mamba_heads"}, SizeLimits::heads, 8);
  f.require_divides("n_mamba_heads", m.heads, "mamba_expand * hidden_size", times(expand, z.hidden));
  m.features = std::max<std::int64_t>(1, times(expand, z.hidden) / m.heads);
  m.groups = f.integer_or({"mamba_ngroups"}, SizeLimits::heads, 1);
  f.require_divides("mamba_ngroups", m.groups, "n_mamba_heads", m.heads);
  m.states = f.integer_or({"mamba_d_state"}, SizeLimits::head_dim, 64);
  m.taps = f.integer_or({"mamba_d_conv"}, 64, 4);
  m.chunk = f.integer_or({"chunk_size"}, 1 << 16, 256);
  m.bias = z.bias;
  m.conv_bias = f.flag("use_conv_bias", true);
  f.reader().ignore({"mamba_headdim", "use_mem_eff_path"});
  ignore_steps(f);
}

void read_attention(Fields& f, Zamba& z) {
  AttentionShape& a = z.attention;
  a.hidden = 2 * z.hidden;
  a.heads = f.integer_or({"num_attention_heads"}, SizeLimits::heads, 32);
  a.kv_heads = f.integer_nullable({"num_key_value_heads"}, SizeLimits::heads, a.heads, a.heads, "num_attention_heads");
  f.require_divides("num_attention_heads", a.heads, "2 * hidden_size", a.hidden);
  f.require_divides("num_key_value_heads", a.kv_heads, "num_attention_heads", a.heads);
  a.head_dim = std::max<std::int64_t>(1, a.hidden / a.heads);
  a.rotary_dim = f.flag("use_mem_rope", false) ? a.head_dim : 0;
  a.score_dropout = f.positive_rate({"attention_dropout"}, 0);
  f.reader().ignore(
      {"attention_hidden_size", "attention_head_dim", "head_dim", "kv_channels", "num_query_groups", "use_long_context"});
}

}  // namespace

void read_zamba2(Fields& f, Model& model) {
  Zamba z;
  z.hidden = f.integer({"hidden_size"}, SizeLimits::width);
  z.layers = f.integer({"num_hidden_layers"}, SizeLimits::layers);
  z.vocabulary = f.integer({"vocab_size"}, SizeLimits::vocabulary);
  z.ffn = f.integer_nullable({"intermediate_size", "ffn_hidden_size"}, SizeLimits::width, 4 * z.hidden, 4 * z.hidden,
                             "4 * hidden_size");
  z.bias = f.flag("add_bias_linear", false);
  z.tied = f.flag("tie_word_embeddings", true);
  z.rank = f.integer_or({"adapter_rank", "lora_rank"}, SizeLimits::width, 128);
  z.shared = f.integer_or({"num_mem_blocks"}, SizeLimits::layers, 1);
  z.attention_adapters = f.flag("use_shared_attention_adapter", false);
  if (f.ok() && !f.reader().optional_bool("use_shared_mlp_adapter", true))
    f.fail("use_shared_mlp_adapter", "false", "adapters on the MLP at every position");
  read_attention(f, z);
  read_mamba(f, z);
  z.hybrid = read_hybrid(f, z.layers);
  f.reader().ignore({"hidden_act", "num_logits_to_keep"});
  const std::int64_t context_length = f.context_length();
  if (!f.ok()) return;

  model.context_length = context_length;
  model.vocabulary = z.vocabulary;
  model.tied_embeddings = z.tied;
  LayerList layers(model);
  const auto last = static_cast<std::ptrdiff_t>(z.hybrid.rend() - std::find(z.hybrid.rbegin(), z.hybrid.rend(), true));
  LayerKind embedding = make_kind("embedding", LayerRole::embedding, z.hidden);
  add_token_embedding(embedding.operators, z.vocabulary, z.hidden);
  embedding.carried = TokenStream::main;
  embedding.carried_hidden = last > 0 ? z.hidden : 0;
  layers.add(std::move(embedding));
  std::int64_t uses = 0;
  for (std::size_t i = 0; i < z.hybrid.size(); ++i) {
    const bool first = z.hybrid[i] && uses++ < z.shared;
    layers.add(block(z, z.hybrid[i], first, static_cast<std::ptrdiff_t>(i) + 1 < last ? z.hidden : 0));
  }
  LayerKind head = make_kind("head", LayerRole::head, z.hidden);
  head.operators.push_back(norm("head.norm", z.hidden, 1));
  add_logits(head.operators, z.hidden, z.vocabulary, z.tied);
  layers.add(std::move(head));
}

}  // namespace espalier::model
