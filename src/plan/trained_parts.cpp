// SPDX-License-Identifier: Apache-2.0
// Determines which parts of a model are trained (mark_trained, espalier/plan.h): adapters on frozen weights, parts
// that are frozen, and how far back gradients have to go.
//
//   targets   operators by their names here, by PEFT's names of Hugging Face projections, by Megatron's names,
//             or "all-linear": all of PEFT's projections of a block. In PEFT, q_proj is the part of attn.qkv
//             that makes queries, and up_proj is half of mlp.gate_up, each with its own pair.
//             In Megatron, linear_qkv has one pair for the whole operator.
//             Shared experts are dense linears and have the MLP's names. Routed experts take no adapters:
//             names that a framework uses for them, alone or among others (Megatron's), are rejected.
//   freeze    embedding, head, tower, projector, or blocks by number
//   backward  the gradient of a layer's output is needed if something is trained in the layer or before it.
//             In a tower only the tower counts: the text that travels along has no part in its computation.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>

#include "base/document.h"
#include "base/format.h"
#include "espalier/plan.h"
#include "plan/structure.h"

namespace espalier {
namespace {

constexpr std::size_t kMostKinds = 64;  // as many as a chunk is summed over (cost/split_table.h)

/// Names the output features of `op`, a projection to queries, keys and values, that one of PEFT's projections makes.
enum class Part : std::uint8_t { whole, queries, keys, values, half };
struct TargetName {
  std::string_view word, op;
  Part part = Part::whole;
};
constexpr std::array kTargetNames = {
    TargetName{"q_proj", "attn.qkv", Part::queries},
    TargetName{"k_proj", "attn.qkv", Part::keys},
    TargetName{"v_proj", "attn.qkv", Part::values},
    TargetName{"q_proj", "attn.q", Part::whole},
    TargetName{"o_proj", "attn.out", Part::whole},
    TargetName{"gate_proj", "mlp.gate_up", Part::half},
    TargetName{"up_proj", "mlp.gate_up", Part::half},
    TargetName{"up_proj", "mlp.up", Part::whole},
    TargetName{"down_proj", "mlp.down", Part::whole},
    TargetName{"c_attn", "attn.qkv", Part::whole},
    TargetName{"qkv_proj", "attn.qkv", Part::whole},
    TargetName{"gate_up_proj", "mlp.gate_up", Part::whole},
    TargetName{"c_fc", "mlp.up", Part::whole},
    TargetName{"linear_qkv", "attn.qkv", Part::whole},
    TargetName{"linear_proj", "attn.out", Part::whole},
    TargetName{"linear_fc1", "mlp.gate_up", Part::whole},
    TargetName{"linear_fc1", "mlp.up", Part::whole},
    TargetName{"linear_fc2", "mlp.down", Part::whole},
    TargetName{"gate_proj", "mlp.shared_gate_up", Part::half},
    TargetName{"up_proj", "mlp.shared_gate_up", Part::half},
    TargetName{"up_proj", "mlp.shared_up", Part::whole},
    TargetName{"down_proj", "mlp.shared_down", Part::whole},
};
constexpr std::string_view kAllLinear = "all-linear";

const Operator* attention_of(const LayerKind& kind) {
  const auto at = std::find_if(kind.operators.begin(), kind.operators.end(),
                               [](const Operator& op) { return op.kind == OperatorKind::attention; });
  return at == kind.operators.end() ? nullptr : &*at;
}

std::int64_t features(const LayerKind& kind, const Operator& op, Part part) {
  const Operator* attention = attention_of(kind);
  switch (part) {
    case Part::whole: return op.out;
    case Part::half: return op.out / 2;
    case Part::queries: return attention == nullptr ? 0 : std::int64_t{attention->heads} * attention->qk_dim;
    case Part::keys:  // none if a previous layer's keys are used
      if (attention == nullptr || op.out == features(kind, op, Part::queries)) return 0;
      return std::int64_t{attention->kv_heads} * attention->qk_dim;
    case Part::values: {  // none if keys are also values
      if (attention == nullptr || op.out <= features(kind, op, Part::queries) + features(kind, op, Part::keys)) return 0;
      return std::int64_t{attention->kv_heads} * attention->v_dim;
    }
  }
  return 0;
}

void add_pair(Operator& op, std::int32_t rank, std::int64_t out) {
  op.adapter_rank = rank;
  ++op.adapters;
  op.adapter_out += out;
}

/// Adds one pair for each of PEFT's projections that the operator holds.
void add_all_pairs(const LayerKind& kind, Operator& op, std::int32_t rank) {
  const std::size_t before = static_cast<std::size_t>(op.adapters);
  for (const TargetName& name : kTargetNames)
    if (name.op == op.name && name.part != Part::whole && features(kind, op, name.part) > 0)
      add_pair(op, rank, features(kind, op, name.part));
  if (static_cast<std::size_t>(op.adapters) == before) add_pair(op, rank, op.out);
}

bool takes_adapter(const Operator& op) { return op.kind == OperatorKind::linear && op.split != TpSplit::vocab; }

/// Adds the pairs that `word` names in the layer; false if it names nothing here.
bool add_target(LayerKind& kind, const std::string& word, std::int32_t rank) {
  bool found = false;
  for (Operator& op : kind.operators) {
    if (!takes_adapter(op)) continue;
    if (word == kAllLinear || op.name == word) {
      if (word == kAllLinear)
        add_all_pairs(kind, op, rank);
      else
        add_pair(op, rank, op.out);
      found = true;
      continue;
    }
    for (const TargetName& name : kTargetNames)
      if (name.word == word && name.op == op.name && features(kind, op, name.part) > 0) {
        add_pair(op, rank, features(kind, op, name.part));
        found = true;
      }
  }
  return found;
}

/// Lists the names of linears in blocks, and the PEFT names that apply to them.
std::string known_targets(const Model& model) {
  std::set<std::string> names;
  for (const LayerKind& kind : model.kinds)
    for (const Operator& op : kind.operators) {
      if (kind.role != LayerRole::block || !takes_adapter(op)) continue;
      names.insert(op.name);
      for (const TargetName& name : kTargetNames)
        if (name.op == op.name && name.word.ends_with("_proj")) names.insert(std::string(name.word));
    }
  std::string out(kAllLinear);
  for (const std::string& name : names) out += ", " + name;
  return out;
}

bool has_weights(const Operator& op) {
  switch (op.kind) {
    case OperatorKind::embedding:
    case OperatorKind::patch_embed:
    case OperatorKind::norm:
    case OperatorKind::linear:
    case OperatorKind::router:
    case OperatorKind::expert_linear: return true;
    default: return op.parameters > 0;
  }
}

bool uses_table(const Model& model, const Operator& op) {
  return op.split == TpSplit::vocab && op.parameters == 0 &&
         (op.kind == OperatorKind::embedding || (op.kind == OperatorKind::linear && model.tied_embeddings));
}

/// Parses "layers 0-15" or "layers 3"; nullopt for anything else.
std::optional<std::pair<std::int64_t, std::int64_t>> block_range(std::string_view text) {
  constexpr std::string_view kWord = "layers ";
  if (!text.starts_with(kWord)) return std::nullopt;
  text.remove_prefix(kWord.size());
  std::int64_t first = 0, last = 0;
  const char* const end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, first);
  if (error != std::errc() || first < 0) return std::nullopt;
  last = first;
  if (rest != end) {
    if (*rest != '-') return std::nullopt;
    const auto [after, second] = std::from_chars(rest + 1, end, last);
    if (second != std::errc() || after != end) return std::nullopt;
  }
  return last < first ? std::nullopt : std::optional(std::pair(first, last));
}

/// Holds the frozen layers, and whether the token table is frozen.
struct Frozen {
  std::vector<bool> layers;
  bool table = false;
};

bool is_tower_part(std::string_view part) { return part == "tower" || part == "projector"; }

/// Adds the tower's blocks, or the layers that map them to the text, to the frozen layers; false if the model has none.
bool freeze_tower_part(const Model& model, std::string_view part, std::vector<bool>& layers) {
  bool found = false;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!model.tower || !model.layer(i).name.starts_with(part)) continue;
    layers[i] = found = true;
  }
  return found;
}

/// Returns whether a layer maps a tower's output to the text. Such a layer lies between blocks, has its own name and
/// is not counted as a block.
bool is_projector(const Model& model, const LayerKind& kind) { return model.tower && kind.name.starts_with("projector"); }

Status read_parts(const Model& model, const Training& training, const std::string& where, Frozen& out) {
  out.layers.assign(model.layers.size(), false);
  std::vector<std::size_t> blocks;
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    if (model.layer(i).role == LayerRole::block && !is_projector(model, model.layer(i))) blocks.push_back(i);
  for (const std::string& part : training.freeze) {
    if (part == "embedding" || part == "head") {
      const LayerRole role = part == "head" ? LayerRole::head : LayerRole::embedding;
      out.table = out.table || part == "embedding";
      for (std::size_t i = 0; i < model.layers.size(); ++i)
        if (model.layer(i).role == role) out.layers[i] = true;
      continue;
    }
    if (is_tower_part(part)) {
      if (!freeze_tower_part(model, part, out.layers))
        return Error{ErrorKind::bad_input, where + ".freeze", cat("\"", part, "\""), "a part of the model",
                     "tower and projector are parts of models with images"};
      continue;
    }
    const auto range = block_range(part);
    if (!range || range->second >= static_cast<std::int64_t>(blocks.size()))
      return Error{
          ErrorKind::bad_input, where + ".freeze", cat("\"", part, "\""),
          cat("embedding, head, tower, projector, or blocks such as \"layers 0-", blocks.empty() ? 0 : blocks.size() - 1, "\""),
          cat("the model has ", blocks.size(), " blocks, counted from 0")};
    for (std::int64_t b = range->first; b <= range->second; ++b) out.layers[blocks[static_cast<std::size_t>(b)]] = true;
  }
  return {};
}

/// Marks one layer; `pairs` are added to its blocks if adapters are trained.
LayerKind marked(const Model& model, LayerKind kind, const Training& training, bool frozen_layer, bool frozen_table) {
  const bool all = training.adapter.any() || frozen_layer;
  for (Operator& op : kind.operators) {
    if (!has_weights(op)) continue;
    op.frozen = uses_table(model, op) ? training.adapter.any() || frozen_table : all;
  }
  if (training.adapter.any() && !frozen_layer && kind.role == LayerRole::block)
    for (const std::string& target : training.adapter.targets) (void)add_target(kind, target, training.adapter.rank);
  return kind;
}

bool trains(const LayerKind& kind) {
  return std::any_of(kind.operators.begin(), kind.operators.end(), [](const Operator& op) {
    return op.adapters > 0 || (!op.frozen && (op.parameters > 0 || op.split == TpSplit::vocab) && has_weights(op));
  });
}

Status check_targets(const Model& model, const Adapter& adapter, const std::string& where) {
  const std::string place = where + ".adapter.targets";
  if (adapter.targets.empty())
    return Error{ErrorKind::bad_input, place, "no targets", "one of " + known_targets(model), "all-linear is QLoRA's choice"};
  for (const std::string& word : adapter.targets) {
    if ((word == "linear_fc1" || word == "linear_fc2") && has_experts(model))
      return Error{ErrorKind::bad_input, place, cat("\"", word, "\" of a mixture of experts"), "one of " + known_targets(model),
                   "under that name Megatron gives routed experts adapters, which are not supported; mlp.shared_gate_up and "
                   "mlp.shared_down are shared experts"};
    bool found = false;
    for (LayerKind kind : model.kinds) found = (kind.role == LayerRole::block && add_target(kind, word, adapter.rank)) || found;
    if (!found)
      return Error{ErrorKind::bad_input, place, cat("\"", word, "\""), "one of " + known_targets(model),
                   "adapters are supported on dense linear layers of blocks, not on routed experts"};
  }
  for (LayerKind kind : model.kinds)
    for (Operator& op : kind.operators) {
      LayerKind alone = kind;
      alone.operators = {op};
      if (const Operator* attention = attention_of(kind)) alone.operators.push_back(*attention);
      if (kind.role != LayerRole::block || !takes_adapter(op)) continue;
      for (const std::string& word : adapter.targets) (void)add_target(alone, word, adapter.rank);
      if (alone.operators.front().adapter_out > op.out)
        return Error{ErrorKind::bad_input, place, cat("overlapping names in ", op.name), "each projection once",
                     "the name of an operator and PEFT's names of its parts refer to the same weights"};
    }
  return {};
}

}  // namespace

Status mark_trained(Model& model, const Training& training, const std::string& where) {
  if (!freezes_weights(training)) return {};
  if (training.adapter.any())
    if (Status status = check_targets(model, training.adapter, where); !status.ok()) return status;
  Frozen frozen;
  if (Status status = read_parts(model, training, where, frozen); !status.ok()) return status;
  std::vector<LayerKind> kinds;
  std::vector<std::int32_t> layers;
  bool trained = false;
  std::array<bool, 4> trained_source{};  // by sequence, for layers that read no previous layers: encoders, towers
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    LayerKind kind = marked(model, model.layer(i), training, frozen.layers[i], frozen.table);
    const bool source = kind.stream == TokenStream::encoder || (model.tower && kind.stream == TokenStream::decoder);
    const bool here = trains(kind);
    bool& of_source = trained_source[static_cast<std::size_t>(kind.stream)];
    trained = trained || here;
    of_source = of_source || (source && here);
    kind.backward = source ? of_source : trained;
    auto at = std::find(kinds.begin(), kinds.end(), kind);
    if (at == kinds.end()) {
      kinds.push_back(kind);
      at = kinds.end() - 1;
    }
    layers.push_back(static_cast<std::int32_t>(at - kinds.begin()));
  }
  if (!trained)
    return Error{ErrorKind::bad_input, where + (training.adapter.any() ? ".adapter" : ".freeze"), "no trained parts",
                 "at least one trained part", "leave some layers out of freeze"};
  if (kinds.size() > kMostKinds)
    return Error{ErrorKind::bad_input, where + ".freeze", cat(kinds.size(), " kinds of layers"), cat("at most ", kMostKinds),
                 "freeze consecutive layers"};
  for (LayerKind& kind : kinds) {  // renames kinds that became different by freezing
    const bool alone = std::count_if(kinds.begin(), kinds.end(), [&](const LayerKind& k) { return k.name == kind.name; }) == 1;
    if (!alone && !kind.backward)
      kind.name += ", no gradient";
    else if (!alone && !trains(kind))
      kind.name += ", frozen";
  }
  model.kinds = std::move(kinds);
  model.layers = std::move(layers);
  return {};
}

}  // namespace espalier
