// SPDX-License-Identifier: Apache-2.0
// Reads the generic description: a model without a config.json, given as widths and a list of blocks (docs/models.md
// has every key). The layers are token embedding, the list of blocks `repeat` times, final norm and logits. The format
// is our own, so every key is read or refused. An example:
//
//   {hidden: 4096, vocabulary: 128256, repeat: 4, blocks: [
//     {count: 7, mixer: mamba2, mamba_n_heads: 128, ffn: 14336},
//     {heads: 32, kv_heads: 8, experts: 16, top_k: 2, ffn: 14336}]}
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "model/family.h"
#include "model/state_space.h"

namespace espalier::model {
namespace {

struct Widths {
  std::int64_t hidden = 0, vocabulary = 0, positions = 0, repeat = 1;
  int norm_weights = 1;
  NormPlace norms = NormPlace::before;
  bool tied = false, causal = true;
};

constexpr std::array<std::string_view, 5> kMixers = {"attention", "mamba", "mamba2", "gated_delta", "conv"};

Operators read_attention(Fields& f, const Widths& w) {
  AttentionShape a;
  a.hidden = w.hidden;
  a.heads = f.integer({"heads"}, SizeLimits::heads);
  a.kv_heads = f.integer_or({"kv_heads"}, SizeLimits::heads, a.heads, "heads: no grouped queries");
  a.head_dim = f.integer_or({"head_dim"}, SizeLimits::head_dim, std::max<std::int64_t>(1, w.hidden / a.heads), "hidden / heads");
  f.require_divides("kv_heads", a.kv_heads, "heads", a.heads);
  if (!f.reader().has("head_dim")) f.require_divides("heads", a.heads, "hidden", w.hidden);
  a.window = f.integer_or({"window"}, SizeLimits::tokens, 0, "the whole sequence", 0);
  a.qkv_bias = a.out_bias = f.flag("bias", false);
  a.qk_norm = f.flag("qk_norm", false);
  a.sinks = f.flag("sinks", false);
  a.rotary_dim = f.flag("rotary", w.positions == 0) ? a.head_dim : 0;
  a.causal = w.causal;
  Operators list;
  add_attention(list, "attn", a);
  return list;
}

Operators read_mixer(Fields& f, const Widths& w, std::size_t mixer) {
  switch (mixer) {
    case 1: return read_mamba_mixer(f, w.hidden);
    case 2: return read_mamba2_mixer(f, w.hidden);
    case 3: return read_delta_mixer(f, w.hidden);
    case 4: return read_conv_mixer(f, w.hidden);
    default: return read_attention(f, w);
  }
}

/// Reads the MLP or mixture of experts; empty if the block has neither.
Operators read_feed_forward(Fields& f, const Widths& w) {
  Operators list;
  const std::int64_t width = f.integer_or({"ffn"}, SizeLimits::width, 0, "no MLP", 0);
  const std::int64_t experts = f.integer_or({"experts"}, SizeLimits::experts, 0, "no mixture", 0);
  const bool gated = f.flag("gated", true), bias = f.flag("ffn_bias", false);
  if (experts == 0) {
    if (width > 0) add_mlp(list, "mlp.", {w.hidden, width, gated, bias, bias, false});
    return list;
  }
  ExpertShape e{w.hidden, width, experts, f.integer({"top_k"}, SizeLimits::experts), gated, bias, 0};
  e.shared_ffn = f.integer_or({"shared"}, SizeLimits::width, 0, "no shared experts", 0);
  if (width == 0) f.fail("ffn", width, "the width of one expert");
  if (e.top_k > experts) f.fail("top_k", e.top_k, "at most experts = " + std::to_string(experts));
  if (f.ok()) add_experts(list, e);
  return list;
}

/// Reads one entry of the list. The caller names it if it is a new kind.
LayerKind read_block(base::Reader& reader, std::vector<ModelNote>& notes, const Widths& w, std::int64_t& count) {
  Fields f(reader, notes);
  count = f.integer_or({"count"}, SizeLimits::layers, 1, "one");
  const std::size_t mixer = reader.optional_choice("mixer", {kMixers.begin(), kMixers.end()}, 0);
  Operators mixing = read_mixer(f, w, mixer);
  Operators feed_forward = read_feed_forward(f, w);
  reader.finish();
  LayerKind kind = make_kind("", LayerRole::block, w.hidden);
  if (!f.ok()) return kind;
  const bool mixture = std::any_of(feed_forward.begin(), feed_forward.end(),
                                   [](const Operator& op) { return op.kind == OperatorKind::expert_linear; });
  kind.name = std::string(kMixers[mixer]) + (mixture ? ".moe" : "");
  if (feed_forward.empty()) {
    kind.operators.push_back(norm("attn.norm", w.hidden, w.norm_weights));
    kind.operators.insert(kind.operators.end(), mixing.begin(), mixing.end());
    kind.operators.push_back(residual("attn.residual", w.hidden));
  } else {
    add_block(kind.operators, {w.hidden, w.norm_weights, w.norms, false}, std::move(mixing), std::move(feed_forward));
  }
  return kind;
}

/// Returns the name of a block's kind: "attention", or "attention.2" for the second different one.
std::string name_of(const std::vector<LayerKind>& seen, const LayerKind& kind) {
  std::size_t alike = 1;
  for (const LayerKind& other : seen) {
    if (other.operators == kind.operators) return other.name;
    const bool same = other.name == kind.name || other.name.compare(0, kind.name.size() + 1, kind.name + "#") == 0;
    if (same) ++alike;
  }
  return alike == 1 ? kind.name : kind.name + "#" + std::to_string(alike);
}

std::vector<LayerKind> read_blocks_of(Fields& f, std::vector<ModelNote>& notes, const Widths& w) {
  constexpr std::size_t kMostKinds = 48;  // below the number that a chunk is summed over (plan/trained_parts.cpp)
  std::vector<LayerKind> seen, blocks;
  f.reader().each("blocks", true, [&](base::Reader& reader) {
    if (!f.ok()) return;
    std::int64_t count = 1;
    LayerKind kind = read_block(reader, notes, w, count);
    if (!f.ok()) return;
    kind.name = name_of(seen, kind);
    const bool known = std::any_of(seen.begin(), seen.end(), [&](const LayerKind& k) { return k.name == kind.name; });
    if (!known) seen.push_back(kind);
    if (seen.size() > kMostKinds)
      f.fail("blocks", std::to_string(seen.size()) + " different blocks", "at most " + std::to_string(kMostKinds));
    const std::int64_t layers = count * w.repeat + static_cast<std::int64_t>(blocks.size()) * w.repeat;
    if (layers > SizeLimits::layers)
      f.fail("blocks", std::to_string(layers) + " layers", "at most " + std::to_string(SizeLimits::layers));
    if (f.ok()) blocks.insert(blocks.end(), static_cast<std::size_t>(count), kind);
  });
  if (f.ok() && blocks.empty()) f.fail("blocks", "no block", "a list with at least one block");
  return blocks;
}

Widths read_widths(Fields& f) {
  Widths w;
  w.hidden = f.integer({"hidden"}, SizeLimits::width);
  w.vocabulary = f.integer({"vocabulary"}, SizeLimits::vocabulary);
  w.positions = f.integer_or({"positions"}, SizeLimits::tokens, 0, "no learned positions", 0);
  w.repeat = f.integer_or({"repeat"}, SizeLimits::layers, 1, "once");
  w.tied = f.flag("tied", false);
  w.causal = f.flag("causal", true);
  w.norm_weights = f.reader().optional_choice("norm", {"rms", "layer"}, 0) == 0 ? 1 : 2;
  constexpr std::array kPlaces = {NormPlace::before, NormPlace::after, NormPlace::sandwich};
  w.norms = kPlaces[f.reader().optional_choice("norms", {"before", "after", "sandwich"}, 0)];
  return w;
}

}  // namespace

void read_generic(Fields& f, Model& model) {
  const Widths w = read_widths(f);
  const std::vector<LayerKind> blocks = read_blocks_of(f, model.notes, w);
  f.reader().ignore({"model_type", "name"});
  f.reader().finish();
  if (!f.ok()) return;
  model.vocabulary = w.vocabulary;
  model.tied_embeddings = w.tied;
  model.max_positions = w.positions;
  LayerList layers(model);
  LayerKind embedding = make_kind("embedding", LayerRole::embedding, w.hidden);
  add_token_embedding(embedding.operators, w.vocabulary, w.hidden);
  if (w.positions > 0) add_extra_embedding(embedding.operators, "position", w.positions, w.hidden);
  layers.add(std::move(embedding));
  for (std::int64_t i = 0; i < w.repeat; ++i)
    for (const LayerKind& block : blocks) layers.add(block);
  LayerKind head = make_kind("head", LayerRole::head, w.hidden);
  head.operators.push_back(norm("head.norm", w.hidden, w.norm_weights));
  add_logits(head.operators, w.hidden, w.vocabulary, w.tied);
  layers.add(std::move(head));
}

}  // namespace espalier::model
