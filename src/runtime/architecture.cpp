// SPDX-License-Identifier: Apache-2.0
#include "runtime/architecture.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/document.h"
#include "base/format.h"

namespace espalier::runtime {
namespace {

using base::cat;

constexpr std::array<std::string_view, 4> kFamilies{"gpt2", "llama", "mistral", "qwen2"};

Error refused(std::string where, std::string found, std::string expected) {
  return {ErrorKind::bad_input, std::move(where), std::move(found), std::move(expected), "docs/runtime.md lists what is run"};
}

Result<Activation> activation_of(const std::string& name) {
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  return refused("model: activation", name, "silu, gelu, gelu_new or relu");
}

/// θ stands at the top or, in newer files, in rope_parameters; scaled frequencies are others than those above.
Status read_rotary(base::Reader& config, Architecture& out) {
  out.rotary_base = config.optional_real("rope_theta", 1, 1e12, out.rotary_base);
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    base::Reader inner = config.child(key, false);
    out.rotary_base = inner.optional_real("rope_theta", 1, 1e12, out.rotary_base);
    const std::string type = inner.optional_string("rope_type", inner.optional_string("type", "default"));
    if (type != "default") return refused(cat("model: ", key), type, "rotary positions without scaling");
  }
  return {};
}

Status refused_layer(const LayerKind& kind) {
  for (const Operator& op : kind.operators) {
    const std::string where = cat("model: ", kind.name, " ", op.name);
    switch (op.kind) {
      case OperatorKind::embedding:
      case OperatorKind::norm:
      case OperatorKind::rotary:
      case OperatorKind::attention:
      case OperatorKind::dropout:
      case OperatorKind::activation:
      case OperatorKind::residual:
      case OperatorKind::cross_entropy: break;
      case OperatorKind::linear:
        if (op.split == TpSplit::none)
          return refused(where, "a linear that tensor parallelism does not split", "column, row or vocabulary");
        break;
      default: return refused(where, "an operator that the runtime does not compute", "a dense decoder");
    }
    if (op.kind == OperatorKind::norm && op.split == TpSplit::heads) return refused(where, "a norm of each head", "none");
    if (op.name == "head.softcap") return refused(where, "a cap on the logits", "none");
  }
  return {};
}

Status refused_strategy(const Strategy& s, const std::string& where) {
  if (s.cp > 1) return refused(where, cat("context parallelism ", s.cp), "1");
  if (s.ep > 1 || s.etp > 1) return refused(where, "expert parallelism", "1");
  if (!(s.partition == BlockPartition{})) return refused(where, "operators partitioned one by one", "tensor parallelism");
  if (!s.recompute.modules.empty()) return refused(where, "single modules recomputed", "none, selective or full");
  return {};
}

Status refused_stage(const Stage& stage, const Model& model, const std::string& where) {
  if (!stage.samples_per_replica.empty()) return refused(where, "unequal samples of replicas", "equal shares");
  if (!stage.state_shares.empty()) return refused(where, "unequal shares of states", "equal shares");
  for (const Chunk& chunk : stage.chunks)
    for (const LayerRange& range : chunk.ranges) {
      if (Status error = refused_strategy(range.strategy, where)) return error;
      for (std::int32_t l = range.first; l <= range.last; ++l)
        for (const Operator& op : model.layer(static_cast<std::size_t>(l)).operators)
          if (op.kind == OperatorKind::attention && op.heads % range.strategy.tp != 0)
            return refused(where, cat("tp ", range.strategy.tp), cat("a divisor of ", op.heads, " heads"));
    }
  return {};
}

}  // namespace

Result<Architecture> architecture_of(const Plan& plan, const Model& model) {
  if (std::find(kFamilies.begin(), kFamilies.end(), model.family) == kFamilies.end())
    return refused("model", cat("family ", model.family), "gpt2, llama, mistral or qwen2");
  for (const LayerKind& kind : model.kinds)
    if (Status error = refused_layer(kind)) return *error;
  const auto document = base::read_json(plan.model_source, "model");
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader config = base::Reader::root(*document, sink);
  Architecture out;
  out.rms_norm = model.family != "gpt2";
  out.norm_epsilon =
      out.rms_norm ? config.optional_real("rms_norm_eps", 0, 1, 1e-6) : config.optional_real("layer_norm_epsilon", 0, 1, 1e-5);
  const auto activation = activation_of(out.rms_norm ? config.optional_string("hidden_act", "silu")
                                                     : config.optional_string("activation_function", "gelu_new"));
  if (!activation) return activation.error();
  out.activation = *activation;
  if (Status error = read_rotary(config, out)) return *error;
  if (!sink.ok()) return *sink.first();
  return out;
}

Status not_runnable(const Plan& plan, const Model& model) {
  if (plan.pipelines.size() != 1) return refused("plan: $.pipelines", cat(plan.pipelines.size(), " pipelines"), "one");
  if (plan.training.precision != Precision::fp32) return refused("plan: $.training.precision", "a mixed precision", "fp32");
  if (plan.training.optimizer != Optimizer::adam)
    return refused("plan: $.training.optimizer", std::string(to_string(plan.training.optimizer)), "adam");
  const std::vector<Stage>& stages = plan.only_pipeline().stages;
  for (std::size_t i = 0; i < stages.size(); ++i)
    if (Status error = refused_stage(stages[i], model, cat("plan: $.pipelines[0].stages[", i, "]"))) return error;
  return {};
}

}  // namespace espalier::runtime
