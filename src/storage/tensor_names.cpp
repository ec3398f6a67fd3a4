// SPDX-License-Identifier: Apache-2.0
#include "storage/tensor_names.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/invariant.h"

namespace espalier::storage {
namespace {

/// Names the tensors of a family that every decoder has.
struct FamilyWords {
  std::string_view prefix, blocks;                  // "model.", "layers."
  std::string_view token, position, final_norm;     // outside the blocks
  std::string_view attention_norm, mlp_norm;        // in a block
  std::string_view query, key, value, packed, out;  // packed: all three in one
  std::string_view query_norm, key_norm;            // norms of each head
  std::string_view gate, up, down;
  std::string_view router, experts, expert_gate, expert_up, expert_down;
  bool transposed = false;  ///< linears are [inputs, outputs]
};

constexpr FamilyWords kLlamaWords{"model.",
                                  "layers.",
                                  "embed_tokens",
                                  "",
                                  "norm",
                                  "input_layernorm",
                                  "post_attention_layernorm",
                                  "self_attn.q_proj",
                                  "self_attn.k_proj",
                                  "self_attn.v_proj",
                                  "",
                                  "self_attn.o_proj",
                                  "self_attn.q_norm",
                                  "self_attn.k_norm",
                                  "mlp.gate_proj",
                                  "mlp.up_proj",
                                  "mlp.down_proj",
                                  "mlp.gate",
                                  "mlp.experts.",
                                  "gate_proj",
                                  "up_proj",
                                  "down_proj",
                                  false};

constexpr FamilyWords mixtral_words() {
  FamilyWords words = kLlamaWords;
  words.router = "block_sparse_moe.gate";
  words.experts = "block_sparse_moe.experts.";
  words.expert_gate = "w1";
  words.expert_up = "w3";
  words.expert_down = "w2";
  return words;
}

constexpr FamilyWords kGpt2Words{
    "transformer.", "h.",         "wte", "wpe", "ln_f", "ln_1", "ln_2", "",  "", "", "attn.c_attn", "attn.c_proj", "", "", "",
    "mlp.c_fc",     "mlp.c_proj", "",    "",    "",     "",     "",     true};

struct NamedFamily {
  std::string_view name;
  FamilyWords words;
};
constexpr std::array<NamedFamily, 7> kFamilies{{{"gpt2", kGpt2Words},
                                                {"llama", kLlamaWords},
                                                {"mistral", kLlamaWords},
                                                {"qwen2", kLlamaWords},
                                                {"qwen3", kLlamaWords},
                                                {"qwen3_moe", kLlamaWords},
                                                {"mixtral", mixtral_words()}}};

const FamilyWords* words_of(const Model& model) {
  for (const NamedFamily& family : kFamilies)
    if (family.name == model.family) return &family.words;
  return nullptr;
}

/// Lists the blocks of one layer, operator by operator.
class Naming {
 public:
  Naming(const FamilyWords& words, const LayerKind& kind, std::int64_t block) : words_(words), kind_(kind) {
    path_ = std::string(words.prefix);
    if (kind.role == LayerRole::block) path_ += cat(words.blocks, block, ".");
  }

  Result<std::vector<TensorBlock>> blocks();

 private:
  /// Describes some outputs of a linear: where they begin among all and how they follow, in heads of `width` every
  /// `stride`.
  struct Outputs {
    std::string name;
    std::int64_t first = 0, heads = 1, stride = 0, width = 0;
    /// This is the place of the first output in its tensor, and the number of outputs that the tensor has.
    std::int64_t tensor_first = 0, tensor_outputs = 0;
  };

  // Each returns whether it handles the operator.
  bool beside_blocks(const Operator& op);
  bool of_attention(const Operator& op);
  bool of_mlp(const Operator& op);
  void table(const Operator& op, const std::string& name);
  void norm(const Operator& op, const std::string& name);
  void row(const Operator& op, const std::string& name);
  void column(const Operator& op, const Outputs& outputs);
  void projection(const Operator& op);
  void gate_up(const Operator& op);
  void expert_column(const Operator& op);
  void expert_row(const Operator& op);
  void add(std::string tensor, std::vector<std::int64_t> shape, std::int64_t tensor_offset, std::int64_t layer_offset,
           std::vector<TensorAxis> axes);
  [[nodiscard]] const Operator* attention() const {
    for (const Operator& op : kind_.operators)
      if (op.kind == OperatorKind::attention) return &op;
    return nullptr;
  }
  [[nodiscard]] std::string in_layer(std::string_view name) const { return cat(path_, name); }

  const FamilyWords& words_;
  const LayerKind& kind_;
  std::string path_;
  std::int64_t first_ = 0;  // first element of the operator in the layer
  std::vector<TensorBlock> out_;
};

void Naming::add(std::string tensor, std::vector<std::int64_t> shape, std::int64_t tensor_offset, std::int64_t layer_offset,
                 std::vector<TensorAxis> axes) {
  axes.erase(std::remove_if(axes.begin(), axes.end(), [](const TensorAxis& axis) { return axis.size == 1; }), axes.end());
  std::stable_sort(axes.begin(), axes.end(), [](const TensorAxis& a, const TensorAxis& b) { return a.in_layer > b.in_layer; });
  out_.push_back({std::move(tensor), std::move(shape), tensor_offset, first_ + layer_offset, std::move(axes)});
}

void Naming::table(const Operator& op, const std::string& name) {
  const std::int64_t width = op.kind == OperatorKind::embedding ? op.out : op.in, rows = op.parameters / width;
  add(name, {rows, width}, 0, 0, {{rows * width, 1, 1}});
}

void Naming::norm(const Operator& op, const std::string& name) {
  const std::int64_t width = op.split == TpSplit::heads ? op.parameters : op.in;
  add(name + ".weight", {width}, 0, 0, {{width, 1, 1}});
  if (op.parameters > width) add(name + ".bias", {width}, 0, width, {{width, 1, 1}});
}

void Naming::row(const Operator& op, const std::string& name) {
  const std::int64_t bias = op.parameters_unsplit;
  if (bias > 0) add(name + ".bias", {op.out}, 0, 0, {{op.out, 1, 1}});
  if (words_.transposed)
    add(name + ".weight", {op.in, op.out}, 0, bias, {{op.in * op.out, 1, 1}});
  else
    add(name + ".weight", {op.out, op.in}, 0, bias, {{op.in, 1, op.out}, {op.out, op.in, 1}});
}

void Naming::column(const Operator& op, const Outputs& o) {
  const std::int64_t unit = op.parameters / op.out;  // an output's weights, and its bias
  const std::int64_t of_output = words_.transposed ? 1 : op.in, of_input = words_.transposed ? o.tensor_outputs : 1;
  const std::vector<std::int64_t> shape =
      words_.transposed ? std::vector{op.in, o.tensor_outputs} : std::vector{o.tensor_outputs, op.in};
  add(o.name + ".weight", shape, o.tensor_first * of_output, o.first * unit,
      {{o.heads, o.width * of_output, o.stride * unit}, {o.width, of_output, unit}, {op.in, of_input, 1}});
  if (unit > op.in)
    add(o.name + ".bias", {o.tensor_outputs}, o.tensor_first, o.first * unit + op.in,
        {{o.heads, o.width, o.stride * unit}, {o.width, 1, unit}});
}

void Naming::projection(const Operator& op) {
  const Operator& core = *attention();
  const std::int64_t dim = core.qk_dim, query = core.heads * dim, key = core.kv_heads * dim;
  const bool packed = !words_.packed.empty();
  const auto named = [&](std::string_view own) { return in_layer(packed ? words_.packed : own); };
  const auto outputs = [&](std::int64_t own) { return packed ? query + 2 * key : own; };
  column(op, {named(words_.query), 0, 1, 0, query, 0, outputs(query)});
  column(op, {named(words_.key), query, core.kv_heads, 2 * dim, dim, packed ? query : 0, outputs(key)});
  column(op, {named(words_.value), query + dim, core.kv_heads, 2 * dim, dim, packed ? query + key : 0, outputs(key)});
}

void Naming::gate_up(const Operator& op) {
  const std::int64_t ffn = op.out / 2;
  column(op, {in_layer(words_.gate), 0, ffn, 2, 1, 0, ffn});
  column(op, {in_layer(words_.up), 1, ffn, 2, 1, 0, ffn});
}

/// Adds each expert as outputs × inputs, with gate and up in turn.
void Naming::expert_column(const Operator& op) {
  const std::int64_t ffn = op.out / 2, each = op.parameters / op.experts;
  for (std::int64_t e = 0; e < op.experts; ++e)
    for (const bool up : {false, true})
      add(cat(in_layer(words_.experts), e, ".", up ? words_.expert_up : words_.expert_gate, ".weight"), {ffn, op.in}, 0,
          e * each + (up ? op.in : 0), {{ffn, op.in, 2 * op.in}, {op.in, 1, 1}});
}

/// Adds each expert as inputs × outputs.
void Naming::expert_row(const Operator& op) {
  for (std::int64_t e = 0; e < op.experts; ++e)
    add(cat(in_layer(words_.experts), e, ".", words_.expert_down, ".weight"), {op.out, op.in}, 0, e * op.in * op.out,
        {{op.in, 1, op.out}, {op.out, op.in, 1}});
}

bool Naming::beside_blocks(const Operator& op) {
  if (op.name == "embed.token")
    table(op, cat(in_layer(words_.token), ".weight"));
  else if (op.name == "embed.position")
    table(op, cat(in_layer(words_.position), ".weight"));
  else if (op.name == "head.logits")
    table(op, "lm_head.weight");
  else if (op.name == "head.norm")
    norm(op, in_layer(words_.final_norm));
  else
    return false;
  return true;
}

bool Naming::of_attention(const Operator& op) {
  if (op.name == "attn.norm")
    norm(op, in_layer(words_.attention_norm));
  else if (op.name == "attn.q_norm")
    norm(op, in_layer(words_.query_norm));
  else if (op.name == "attn.k_norm")
    norm(op, in_layer(words_.key_norm));
  else if (op.name == "attn.qkv" && attention() != nullptr)
    projection(op);
  else if (op.name == "attn.out")
    row(op, in_layer(words_.out));
  else
    return false;
  return true;
}

bool Naming::of_mlp(const Operator& op) {
  const bool gated = !words_.gate.empty();
  if (op.name == "mlp.norm")
    norm(op, in_layer(words_.mlp_norm));
  else if (op.name == "mlp.gate_up" && gated)
    gate_up(op);
  else if (op.name == "mlp.up" && !gated)
    column(op, {in_layer(words_.up), 0, 1, 0, op.out, 0, op.out});
  else if (op.name == "mlp.down")
    row(op, in_layer(words_.down));
  else if (op.name == "mlp.router")
    table(op, cat(in_layer(words_.router), ".weight"));
  else if (op.name == "mlp.expert_gate_up")
    expert_column(op);
  else if (op.name == "mlp.expert_down")
    expert_row(op);
  else
    return false;
  return true;
}

Result<std::vector<TensorBlock>> Naming::blocks() {
  for (const Operator& op : kind_.operators) {
    if (op.parameters > 0 && !beside_blocks(op) && !of_attention(op) && !of_mlp(op))
      return Error{ErrorKind::bad_input, cat("model: ", kind_.name, " ", op.name), "parameters with unknown tensors",
                   "a decoder of docs/runtime.md", ""};
    first_ += op.parameters;
  }
  return std::move(out_);
}

}  // namespace

Result<std::vector<TensorBlock>> blocks_of(const Model& model, std::int32_t layer) {
  const FamilyWords* words = words_of(model);
  if (words == nullptr) {
    std::vector<std::string_view> names;
    for (const NamedFamily& family : kFamilies) names.push_back(family.name);
    return Error{ErrorKind::bad_input, "model", cat("family ", model.family), base::joined(names),
                 "tensor names depend on the family"};
  }
  std::int64_t block = 0;
  for (std::int32_t l = 0; l < layer; ++l)
    if (model.layer(static_cast<std::size_t>(l)).role == LayerRole::block) ++block;
  return Naming(*words, model.layer(static_cast<std::size_t>(layer)), block).blocks();
}

// ---- runs ---------------------------------------------------------------------------------------------------------

namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

class Runs {
 public:
  Runs(const TensorBlock& block, const Interval& interval, const std::function<void(const ElementRun&)>& each)
      : axes_(block.axes), interval_(interval), each_(each), span_(block.axes.size() + 1, 0) {
    for (std::size_t k = axes_.size(); k-- > 0;) span_[k] = span_[k + 1] + (axes_[k].size - 1) * axes_[k].in_layer;
  }

  void walk(std::size_t k, std::int64_t layer, std::int64_t tensor) const {
    if (axes_.empty()) {
      if (layer >= interval_.first && layer < interval_.last) each_({layer, 1, tensor, 1, 1});
      return;
    }
    const TensorAxis& axis = axes_[k];
    const std::int64_t low = std::max<std::int64_t>(0, ceil_div(interval_.first - layer - span_[k + 1], axis.in_layer));
    const std::int64_t high = std::min(axis.size - 1, floor_div(interval_.last - 1 - layer, axis.in_layer));
    if (low > high) return;
    if (k + 1 == axes_.size()) {
      each_({layer + low * axis.in_layer, axis.in_layer, tensor + low * axis.in_tensor, axis.in_tensor, high - low + 1});
      return;
    }
    for (std::int64_t i = low; i <= high; ++i) walk(k + 1, layer + i * axis.in_layer, tensor + i * axis.in_tensor);
  }

 private:
  const std::vector<TensorAxis>& axes_;
  Interval interval_;
  const std::function<void(const ElementRun&)>& each_;
  std::vector<std::int64_t> span_;  // from an element to the last one of the axes from k on
};

}  // namespace

void runs_in(const TensorBlock& block, const Interval& interval, const std::function<void(const ElementRun&)>& each) {
  Runs(block, interval, each).walk(0, block.layer_offset, block.tensor_offset);
}

// ---- names in files -----------------------------------------------------------------------------------------------

std::vector<std::string> names_in_files(const std::string& tensor, const Model& model) {
  const FamilyWords* words = words_of(model);
  ESPALIER_CHECK(words != nullptr);
  if (tensor.rfind(words->prefix, 0) != 0) return {tensor};
  return {tensor, tensor.substr(words->prefix.size())};
}

bool is_no_parameter(const std::string& tensor, const Model& model) {
  const auto ends = [&](std::string_view end) {
    return tensor.size() >= end.size() && tensor.compare(tensor.size() - end.size(), end.size(), end) == 0;
  };
  if (tensor == "lm_head.weight") return model.tied_embeddings;
  return ends(".attn.bias") || ends(".attn.masked_bias") || ends("rotary_emb.inv_freq");
}

}  // namespace espalier::storage
