// SPDX-License-Identifier: Apache-2.0
#include "check/frozen_parts.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "check/verdict.h"

namespace espalier::check {
namespace {

/// Returns whether `freeze` names the layer, by its role or as the n-th block.
bool frozen_layer(const Training& training, const LayerKind& kind, std::int64_t block) {
  for (const std::string& part : training.freeze) {
    if (part == "embedding" && kind.role == LayerRole::embedding) return true;
    if (part == "head" && kind.role == LayerRole::head) return true;
    const bool of_tower = kind.stream != TokenStream::main && kind.carried == TokenStream::main && kind.carried_hidden > 0;
    if (of_tower && part == (kind.name.compare(0, 9, "projector") == 0 ? "projector" : "tower")) return true;
    if (!part.starts_with("layers ") || kind.role != LayerRole::block || kind.name.compare(0, 9, "projector") == 0) continue;
    char* end = nullptr;
    const std::int64_t first = std::strtoll(part.c_str() + 7, &end, 10);
    const std::int64_t last = *end == '-' ? std::strtoll(end + 1, nullptr, 10) : first;
    if (first <= block && block <= last) return true;
  }
  return false;
}

/// Returns whether the layer belongs to the tower that is not the image tower.
bool sounds(const View& view, const LayerKind& kind) { return view.model->tower && kind.stream == TokenStream::decoder; }

/// Returns whether a query projection also makes `times` sets of key/value heads (1: keys; 2: keys and values). It
/// makes one if keys serve as values, and none if the layer uses another layer's.
bool makes_more(const LayerKind& kind, const Operator& op, std::int64_t times) {
  return std::none_of(kind.operators.begin(), kind.operators.end(), [&](const Operator& core) {
    return core.kind == OperatorKind::attention && op.out < (core.heads + times * core.kv_heads) * core.qk_dim;
  });
}

/// Returns whether the target names the operator, or a projection inside it.
bool may_mean(const std::string& target, const LayerKind& kind, const Operator& op) {
  if (target == op.name || target == "all-linear") return true;
  const auto is = [&](const char* name) { return op.name == name; };
  if (target == "q_proj") return is("attn.qkv") || is("attn.q");
  if (target == "v_proj") return is("attn.qkv") && makes_more(kind, op, 2);
  if (target == "k_proj") return is("attn.qkv") && makes_more(kind, op, 1);
  if (target == "linear_qkv" || target == "c_attn" || target == "qkv_proj") return is("attn.qkv");
  if (target == "o_proj" || target == "linear_proj") return is("attn.out");
  if (target == "down_proj") return is("mlp.down") || is("mlp.shared_down");
  if (target == "linear_fc2") return is("mlp.down");
  if (target == "gate_proj") return is("mlp.gate_up") || is("mlp.shared_gate_up");
  if (target == "gate_up_proj") return is("mlp.gate_up");
  if (target == "up_proj" && (is("mlp.shared_gate_up") || is("mlp.shared_up"))) return true;
  if (target == "c_fc") return is("mlp.up");
  return (target == "up_proj" || target == "linear_fc1") && (is("mlp.gate_up") || is("mlp.up"));
}

std::string fault_of(const Training& training, const Model& model, const LayerKind& kind, const Operator& op, bool frozen) {
  const bool tied = op.split == TpSplit::vocab && op.parameters == 0 && op.kind != OperatorKind::cross_entropy;
  if (tied && model.tied_embeddings && kind.role == LayerRole::head)
    frozen = std::find(training.freeze.begin(), training.freeze.end(), "embedding") != training.freeze.end();
  const bool stays = training.adapter.any() || frozen;
  if (op.parameters > 0 && op.frozen != stays) return say(op.name, stays ? " is trained" : " is frozen");
  const bool wanted = training.adapter.any() && !frozen && kind.role == LayerRole::block && op.kind == OperatorKind::linear &&
                      std::any_of(training.adapter.targets.begin(), training.adapter.targets.end(),
                                  [&](const std::string& t) { return may_mean(t, kind, op); });
  if ((op.adapters > 0) != wanted) return say(op.name, wanted ? " has no adapter" : " has an adapter");
  if (op.adapters == 0) return "";
  if (op.adapter_rank != training.adapter.rank) return say(op.name, ": rank ", op.adapter_rank, ", not ", training.adapter.rank);
  return op.adapter_out > op.out ? say(op.name, ": adapters for ", op.adapter_out, " of ", op.out, " features") : "";
}

}  // namespace

Finding check_trained_parts(const View& view) {
  Verdict verdict("trained-parts");
  const Training& training = view.plan->training;
  std::int64_t block = 0, pairs = 0;
  bool trained = false, trained_source = false,
       trained_sound = false;  // in any layer so far; in the encoder's; in a second tower's
  for (std::size_t i = 0; i < view.model->layers.size(); ++i) {
    const LayerKind& kind = view.model->layer(i);
    const bool frozen = frozen_layer(training, kind, block);
    if (kind.role == LayerRole::block && kind.name.compare(0, 9, "projector") != 0) ++block;
    for (const Operator& op : kind.operators) {
      const std::string fault = fault_of(training, *view.model, kind, op, frozen);
      verdict.require(fault.empty(), [&] { return say("layer ", i, ": ", fault); });
      const bool here = op.adapters > 0 || (op.parameters > 0 && !op.frozen);
      trained = trained || here;
      trained_source = trained_source || (here && kind.stream == TokenStream::encoder);
      trained_sound = trained_sound || (here && sounds(view, kind));
      pairs += op.adapters;
    }
    const bool table = kind.role == LayerRole::head && view.model->tied_embeddings;
    const bool reached = kind.stream == TokenStream::encoder ? trained_source : sounds(view, kind) ? trained_sound : trained;
    verdict.require(kind.backward == reached || (table && !reached),
                    [&] { return say("layer ", i, kind.backward ? " has" : " has no", " backward pass"); });
  }
  return verdict.finding(pairs > 0 ? say(pairs, " pairs of rank ", training.adapter.rank) : std::string("parts as stated"));
}

}  // namespace espalier::check
