// SPDX-License-Identifier: Apache-2.0
#include "runtime/architecture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>

#include "base/document.h"
#include "base/format.h"
#include "plan/block_tiles.h"
#include "plan/engine.h"
#include "plan/ownership.h"
#include "plan/process_groups.h"
#include "plan/shared_table.h"
#include "plan/version_1.h"

namespace espalier::runtime {
namespace {

constexpr std::array<std::string_view, 7> kFamilies{"gpt2", "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe"};

Error refused(std::string where, std::string found, std::string expected) {
  return {ErrorKind::bad_input, std::move(where), std::move(found), std::move(expected),
          "docs/runtime.md lists what the runtime supports"};
}

Result<Activation> activation_of(const std::string& name) {
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  return refused("model: activation", name, "silu, gelu, gelu_new or relu");
}

Status read_stretch(base::Reader& r, const std::string& type, const std::string& where, RotaryStretch& out) {
  if (type == "default") return {};
  if (type != "linear" && type != "llama3") return refused(where, type, "unscaled, linear or llama3 rotary positions");
  out.kind = type == "linear" ? RotaryStretch::Kind::linear : RotaryStretch::Kind::llama3;
  out.factor = r.required_real("factor", 1, 1e6);
  if (out.kind == RotaryStretch::Kind::linear) return {};
  out.low = r.required_real("low_freq_factor", 1e-6, 1e6);
  out.high = r.required_real("high_freq_factor", 1e-6, 1e6);
  out.context = r.required_real("original_max_position_embeddings", 1, 1e12);
  if (out.high <= out.low) return refused(where, "high_freq_factor not greater than low_freq_factor", "a greater one");
  return {};
}

/// Reads θ, which is a top-level key or, in newer files, a key of rope_parameters.
Status read_rotary(base::Reader& config, Architecture& out) {
  out.rotary_base = config.optional_real("rope_theta", 1, 1e12, out.rotary_base);
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    base::Reader inner = config.child(key, false);
    out.rotary_base = inner.optional_real("rope_theta", 1, 1e12, out.rotary_base);
    const std::string type = inner.optional_string("rope_type", inner.optional_string("type", "default"));
    if (Status status = read_stretch(inner, type, cat("model: ", key), out.rotary_stretch); !status.ok()) return status;
  }
  return {};
}

/// Rejects settings that change how experts are trained and that the runtime does not apply.
Status read_experts(base::Reader& config, const std::string& family, Architecture& out) {
  if (family == "qwen3_moe") out.normalised_experts = config.optional_bool("norm_topk_prob", false);
  if (config.optional_bool("output_router_logits", false))
    return refused("model: output_router_logits", "true", "false: a balancing loss for the experts is not supported");
  if (config.optional_real("router_jitter_noise", 0, 1, 0) > 0) return refused("model: router_jitter_noise", "noise", "0");
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
      case OperatorKind::router:
      case OperatorKind::dispatch:
      case OperatorKind::expert_activation:
      case OperatorKind::combine:
      case OperatorKind::cross_entropy: break;
      case OperatorKind::expert_linear:
        if (op.parameters != op.experts * op.in * op.out) return refused(where, "biases of experts", "none");
        break;
      case OperatorKind::linear:
        if (op.split == TpSplit::none)
          return refused(where, "a linear layer that tensor parallelism does not split", "column, row or vocabulary");
        break;
      default: return refused(where, "an operator that the runtime does not compute", "a dense decoder");
    }
    if (op.name == "head.softcap") return refused(where, "a softcap on the logits", "none");
  }
  return {};
}

Status refused_strategy(const Strategy& s, const std::string& where) {
  // Selective recomputation here covers attention only. Plans of `generic` also name norms and activation functions;
  // recomputing these does not change the training.
  const RecomputeModules modules = s.recompute.modules;
  if (modules.any() && modules != RecomputeModules{RecomputeModule::core_attn} && modules != kModulesOfVersion1)
    return refused(where, cat("recomputation of ", to_string(modules)), "none, selective, core_attn or full");
  if (s.offload != Offload::none) return refused(where, cat("offload ", to_string(s.offload)), "offload none");
  return {};
}

/// Rejects degrees that do not divide the heads or experts of an operator.
Status refused_degrees(const Operator& op, const Strategy& s, const std::string& where) {
  const std::int64_t ways = std::int64_t{s.tp} * (s.cp_kind == ContextParallelKind::all_to_all ? s.cp : 1);
  if (op.kind == OperatorKind::attention && op.heads % ways != 0)
    return refused(where, cat("heads over ", ways, " ranks"), cat("a divisor of ", op.heads, " heads"));
  if (op.kind != OperatorKind::expert_activation) return {};
  if (op.experts % s.ep != 0) return refused(where, cat("ep ", s.ep), cat("a divisor of ", op.experts, " experts"));
  if ((s.etp != 1 && s.etp != s.weight_tp()) || op.out % s.etp != 0)
    return refused(where, cat("etp ", s.etp),
                   cat("1 or the degree that splits the dense weights, ", s.weight_tp(), ", where it divides ", op.out));
  return {};
}

/// Checks operators that are partitioned one by one. Every slice must be whole, whichever replica a rank is in.
Status refused_partition(const Plan& plan, const Pipeline& pipeline, const Stage& stage, const Strategy& s, const LayerKind& kind,
                         const std::string& where) {
  if (plan.training.precision != Precision::fp32)
    return refused(where, "operators partitioned one by one in mixed precision", "fp32");
  const EngineModel* engine = find_engine(plan.engine);
  if (engine == nullptr) return refused("plan: $.engine", plan.engine, "a known engine");
  std::vector<std::int64_t> samples = stage.samples_per_replica;
  if (samples.empty()) samples = {pipeline.samples_per_microbatch() / s.dp};
  for (const std::int64_t of_replica : samples)
    if (const auto block = spread_block(plan.training.sequence, *engine, kind, of_replica, s); !block)
      return refused(cat(where, ": ", block.error().where), block.error().found, block.error().expected);
  for (const Stage& other : pipeline.stages)
    if (devices_of(other.devices).size() != devices_of(stage.devices).size())
      return refused(where, "operators partitioned one by one with stages of different sizes", "stages of equal sizes");
  return {};
}

Status refused_stage(const Plan& plan, const Pipeline& pipeline, const Stage& stage, const Model& model,
                     const std::string& where) {
  for (const std::int64_t samples : stage.samples_per_replica)
    if (samples < 1) return refused(where + ".samples_per_replica", "a replica without samples", "some for each replica");
  for (const Chunk& chunk : stage.chunks)
    for (const LayerRange& range : chunk.ranges) {
      if (Status status = refused_strategy(range.strategy, where); !status.ok()) return status;
      for (std::int32_t l = range.first; l <= range.last; ++l) {
        const LayerKind& kind = model.layer(static_cast<std::size_t>(l));
        if (!range.strategy.partition.empty() && kind.role == LayerRole::block) {
          if (Status status = refused_partition(plan, pipeline, stage, range.strategy, kind, where); !status.ok()) return status;
          continue;
        }
        for (const Operator& op : kind.operators)
          if (Status status = refused_degrees(op, range.strategy, where); !status.ok()) return status;
      }
    }
  return {};
}

/// Checks the copies of a token table, which are summed rank by rank.
Status refused_copies(const Plan& plan, const Model& model) {
  const auto holdings = holdings_of(plan, model);
  if (!holdings) return holdings.error();
  for (const Holding& copy : *holdings)
    for (const Holding& own : *holdings) {
      if (!copy.table_copy || own.table_copy || own.pipeline != copy.pipeline || own.first_layer > 0) continue;
      if (table_layout(own.strategy) == table_layout(copy.strategy) && own.devices.size() == copy.devices.size() &&
          own.state_shares == copy.state_shares)
        continue;
      return refused(
          cat("plan: $.pipelines[", copy.pipeline, "].stages[", copy.stage, "]"),
          cat("a copy of the token table as ", text_of(table_layout(copy.strategy)), " on ", copy.devices.size(), " devices"),
          cat("like the embedding: ", text_of(table_layout(own.strategy)), " on ", own.devices.size()));
    }
  return {};
}

}  // namespace

Result<Architecture> architecture_of(const Plan& plan, const Model& model) {
  if (std::find(kFamilies.begin(), kFamilies.end(), model.family) == kFamilies.end())
    return refused("model", cat("family ", model.family), "gpt2, llama, mistral, mixtral, qwen2, qwen3 or qwen3_moe");
  for (const LayerKind& kind : model.kinds)
    if (Status status = refused_layer(kind); !status.ok()) return status.error();
  const auto document = base::read_json(plan.model_source, "model");
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader config = base::Reader::root(*document, sink);
  Architecture out;
  out.rms_norm = model.family != "gpt2";
  const bool mixtral = model.family == "mixtral";  // MixtralConfig has other defaults
  if (mixtral) out.rotary_base = 1e6;
  out.norm_epsilon = out.rms_norm ? config.optional_real("rms_norm_eps", 0, 1, mixtral ? 1e-5 : 1e-6)
                                  : config.optional_real("layer_norm_epsilon", 0, 1, 1e-5);
  const auto activation = activation_of(out.rms_norm ? config.optional_string("hidden_act", "silu")
                                                     : config.optional_string("activation_function", "gelu_new"));
  if (!activation) return activation.error();
  out.activation = *activation;
  if (Status status = read_rotary(config, out); !status.ok()) return status.error();
  if (Status status = read_experts(config, model.family, out); !status.ok()) return status.error();
  if (!sink.ok()) return sink.first().error();
  return out;
}

std::vector<double> rotary_rates(const Architecture& architecture, std::int64_t dim) {
  const RotaryStretch& s = architecture.rotary_stretch;
  std::vector<double> rates;
  for (std::int64_t i = 0; i < dim / 2; ++i) {
    const double rate = std::pow(architecture.rotary_base, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    const double slow = rate / s.factor, turns = s.context * rate / (2 * std::numbers::pi);  // L/λ
    const double u = std::clamp((turns - s.low) / (s.high - s.low), 0.0, 1.0);
    switch (s.kind) {
      case RotaryStretch::Kind::none: rates.push_back(rate); break;
      case RotaryStretch::Kind::linear: rates.push_back(slow); break;
      case RotaryStretch::Kind::llama3: rates.push_back((1 - u) * slow + u * rate); break;
    }
  }
  return rates;
}

Status not_runnable(const Plan& plan, const Model& model) {
  if (plan.training.precision != Precision::fp32 && plan.training.precision != Precision::bf16)
    return refused("plan: $.training.precision", std::string(to_string(plan.training.precision)), "fp32 or bf16");
  if (plan.training.optimizer != Optimizer::adam)
    return refused("plan: $.training.optimizer", std::string(to_string(plan.training.optimizer)), "adam");
  if (freezes_weights(plan.training)) return refused("plan: $.training", "adapters or frozen parts", "training of all weights");
  if (plan.training.lengths.any()) return refused("plan: $.training.lengths", "lengths of sequences", "samples of equal length");
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p)
    for (std::size_t i = 0; i < plan.pipelines[p].stages.size(); ++i)
      if (Status status = refused_stage(plan, plan.pipelines[p], plan.pipelines[p].stages[i], model,
                                        cat("plan: $.pipelines[", p, "].stages[", i, "]"));
          !status.ok())
        return status;
  return refused_copies(plan, model);
}

}  // namespace espalier::runtime
