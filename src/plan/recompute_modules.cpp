// SPDX-License-Identifier: Apache-2.0
#include "plan/recompute_modules.h"

#include <algorithm>
#include <map>

#include "espalier/plan.h"
#include "plan/engine.h"
#include "plan/latent_attention.h"

namespace espalier {
namespace {

constexpr std::string_view kOperator = "op";

bool mixes_tokens(OperatorKind kind) {
  return kind == OperatorKind::attention || kind == OperatorKind::scan || kind == OperatorKind::chunked_scan ||
         kind == OperatorKind::gated_delta || kind == OperatorKind::causal_conv;
}

}  // namespace

std::string_view to_string(RecomputeModule v) {
  switch (v) {
    case RecomputeModule::core_attn: return "core_attn";
    case RecomputeModule::layernorm: return "layernorm";
    case RecomputeModule::act: return "act";
    case RecomputeModule::mlp: return "mlp";
    case RecomputeModule::moe: return "moe";
    case RecomputeModule::moe_act: return "moe_act";
    case RecomputeModule::mla_up_proj: return "mla_up_proj";
    case RecomputeModule::shared_experts: return "shared_experts";
    case RecomputeModule::every_second_mm: return "every_second_mm";
    case RecomputeModule::grouped_mm: return "grouped_mm";
  }
  return "?";
}

std::string to_string(RecomputeModules v) {
  if (v == kPerOperator) return std::string(kOperator);
  std::string out;
  v.each([&](RecomputeModule m) { out.append(out.empty() ? "" : ",").append(to_string(m)); });
  return out;
}

std::string listed(RecomputeModules v) {
  std::string out;
  v.each([&](RecomputeModule m) { out.append(out.empty() ? "" : ", ").append(to_string(m)); });
  return out;
}

std::optional<RecomputeModule> parse_recompute_module(std::string_view name) {
  for (int i = 0; i < kRecomputeModules; ++i)
    if (to_string(static_cast<RecomputeModule>(i)) == name) return static_cast<RecomputeModule>(i);
  return std::nullopt;
}

std::optional<RecomputeModules> parse_recompute_modules(std::string_view names) {
  if (names == kOperator) return kPerOperator;
  RecomputeModules out;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find_first_of(", "), names.size());
    const std::string_view name = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    if (name.empty()) continue;
    const auto module = parse_recompute_module(name);
    if (!module) return std::nullopt;
    out.add(*module);
  }
  return out.any() ? std::optional(out) : std::nullopt;
}

void BlockWalk::enter(std::size_t i) {
  const auto& ops = kind_.operators;
  begin_ = mixed_ = end_ = i;
  routes_ = multiplies_ = entered_ = norm_again_ = activation_again_ = false;
  norm_width_ = 0;
  bool mixes = false;
  for (; end_ < ops.size() && ops[end_].kind != OperatorKind::residual; ++end_) {
    const Operator& op = ops[end_];
    routes_ |= op.kind == OperatorKind::router;
    multiplies_ |= op.kind == OperatorKind::linear;
    mixes |= mixes_tokens(op.kind);
    if (mixes_tokens(op.kind)) mixed_ = ops.size();  // until a linear follows
    if (op.kind == OperatorKind::linear && mixes && mixed_ == ops.size()) mixed_ = end_ + 1;
  }
  if (end_ < ops.size()) ++end_;  // includes the addition itself
}

BlockPart BlockWalk::part_of(std::size_t i) const {
  const Operator& op = kind_.operators[i];
  if (op.kind == OperatorKind::residual) return BlockPart::other;
  if (i < mixed_) return BlockPart::attention;
  if (!routes_) return multiplies_ ? BlockPart::mlp : BlockPart::other;
  const bool dense = op.kind == OperatorKind::linear || op.kind == OperatorKind::activation;
  return dense ? BlockPart::shared_experts : BlockPart::experts;
}

bool BlockWalk::norm_of_latent(std::size_t i) const {
  return i + 1 < kind_.operators.size() && attention_of_latent(kind_, kind_.operators[i + 1]) != nullptr;
}

bool BlockWalk::is_fused(std::size_t i, BlockPart part) const {
  const auto& ops = kind_.operators;
  if (!fuses_norms_ || part == BlockPart::experts || i + 1 >= ops.size()) return false;
  const Operator& next = ops[i + 1];
  if (next.kind != OperatorKind::linear || next.split != TpSplit::column || next.in != ops[i].in) return false;
  if (part != BlockPart::attention || norm_of_latent(i)) return true;
  return std::none_of(ops.begin(), ops.end(), [&](const Operator& op) { return attention_of_latent(kind_, op) != nullptr; });
}

OperatorAgain BlockWalk::of_norm(std::size_t i, BlockPart part) {
  const bool fused = is_fused(i, part);
  norm_width_ = kind_.operators[i].in;
  norm_again_ = (modules_.has(RecomputeModule::layernorm) && !fused) ||
                (modules_.has(RecomputeModule::mlp) && part == BlockPart::mlp && fused) ||
                (modules_.has(RecomputeModule::mla_up_proj) && norm_of_latent(i));
  return {part, norm_again_ ? 1.0 : 0.0};
}

OperatorAgain BlockWalk::of_linear(std::size_t i, OperatorAgain again) {
  const Operator& op = kind_.operators[i];
  const OperatorKind before = i > begin_ ? kind_.operators[i - 1].kind : OperatorKind::residual;
  again.traffic = again.inside;
  if (again.inside || (modules_.has(RecomputeModule::mla_up_proj) && attention_of_latent(kind_, op) != nullptr))
    again.share = 1;
  else if (modules_.has(RecomputeModule::every_second_mm) && op.split != TpSplit::vocab)
    again.share = second_products_;
  const bool reads_norm = before == OperatorKind::norm || (again.part == BlockPart::shared_experts && op.in == norm_width_);
  again.input_again =
      (again.inside && entered_) || (reads_norm && norm_again_) || (before == OperatorKind::activation && activation_again_);
  entered_ |= again.inside;
  return again;
}

OperatorAgain BlockWalk::of_experts(const Operator& op, OperatorAgain again) const {
  const bool grouped = modules_.has(RecomputeModule::grouped_mm), whole = again.inside;
  switch (op.kind) {
    case OperatorKind::router: again.input_again = norm_again_; break;
    case OperatorKind::dispatch:
    case OperatorKind::combine:
      again.traffic = whole;
      again.inside = whole || (grouped && !exchanges_);
      again.share = whole || (grouped && op.kind == OperatorKind::dispatch) ? 1 : 0;
      return again;
    default: again.inside = whole || grouped; break;
  }
  again.share = again.inside ? 1 : 0;
  return again;
}

OperatorAgain BlockWalk::next(std::size_t i) {
  using enum RecomputeModule;
  if (i >= end_) enter(i);
  const Operator& op = kind_.operators[i];
  OperatorAgain again;
  again.part = part_of(i);
  const bool beside_router = again.part == BlockPart::experts || again.part == BlockPart::shared_experts;
  again.inside = (again.part == BlockPart::mlp && modules_.has(mlp)) || (beside_router && modules_.has(moe)) ||
                 (again.part == BlockPart::shared_experts && modules_.has(shared_experts));
  switch (op.kind) {
    case OperatorKind::norm: return of_norm(i, again.part);
    case OperatorKind::linear: return of_linear(i, again);
    case OperatorKind::attention: return {again.part, modules_.has(core_attn) ? 1.0 : 0.0, modules_.has(core_attn)};
    case OperatorKind::activation:
      activation_again_ = again.inside || modules_.has(act);
      again.share = activation_again_ ? 1 : 0;
      return again;
    case OperatorKind::router:
    case OperatorKind::dispatch:
    case OperatorKind::combine:
    case OperatorKind::expert_linear: {
      const bool made_again = activation_again_;
      again = of_experts(op, again);
      again.input_again |= op.kind == OperatorKind::expert_linear && made_again;
      return again;
    }
    case OperatorKind::expert_activation:
      again = of_experts(op, again);
      activation_again_ = again.inside || modules_.has(moe_act);
      again.share = activation_again_ ? 1 : 0;
      return again;
    default: return {again.part};
  }
}

namespace {

/// Returns whether any part of the blocks runs again, or is dropped, under the one module.
bool has_module(const Model& model, RecomputeModule module, bool fuses_norms) {
  for (const LayerKind& kind : model.kinds) {
    if (kind.role != LayerRole::block) continue;
    BlockWalk walk(kind, {module}, fuses_norms, false, 1);
    for (std::size_t i = 0; i < kind.operators.size(); ++i)
      if (walk.next(i).share > 0) return true;
  }
  return false;
}

}  // namespace

RecomputeModules modules_of(const Model& model, bool fuses_norms) {
  RecomputeModules out;
  RecomputeModules::all().each([&](RecomputeModule module) {
    if (has_module(model, module, fuses_norms)) out.add(module);
  });
  return out;
}

namespace {

/// Returns everything by which the cost of a block depends on a set of modules. It holds the operators that run again,
/// with and without exchanges. It also holds the modules that cost/activation_memory.cpp reads by name.
std::pair<std::vector<OperatorAgain>, RecomputeModules> effect_of(const Model& model, bool fuses_norms, RecomputeModules set) {
  std::vector<OperatorAgain> again;
  for (const LayerKind& kind : model.kinds) {
    if (kind.role != LayerRole::block) continue;
    for (const bool exchanges : {false, true}) {
      BlockWalk walk(kind, set, fuses_norms, exchanges, 1);
      for (std::size_t i = 0; i < kind.operators.size(); ++i) again.push_back(walk.next(i));
    }
  }
  constexpr RecomputeModules kByName{RecomputeModule::moe, RecomputeModule::mla_up_proj, RecomputeModule::every_second_mm};
  return {std::move(again), set.both(kByName)};
}

}  // namespace

RecomputeModules selective_modules(const EngineModel& engine, const Model& model) {
  const RecomputeModules modules = engine.memory.selective;
  return engine.runs.chooses_modules ? modules.both(modules_of(model, engine.memory.fuses_norms)) : modules;
}

std::vector<RecomputeModules> module_sets(const EngineModel& engine, const Model& model) {
  if (!engine.runs.selective_recompute || !engine.runs.chooses_modules) return {};
  std::vector<RecomputeModules> sets(1);  // all subsets, the empty one first
  modules_of(model, engine.memory.fuses_norms).both(engine.runs.recompute_modules).each([&](RecomputeModule module) {
    const std::size_t smaller = sets.size();
    for (std::size_t i = 0; i < smaller; ++i) {
      sets.push_back(sets[i]);
      sets.back().add(module);
    }
  });
  std::map<std::pair<std::vector<OperatorAgain>, RecomputeModules>, RecomputeModules> by_effect;
  by_effect.emplace(effect_of(model, engine.memory.fuses_norms, {}), RecomputeModules{});
  const RecomputeModules meaning = selective_modules(engine, model);
  by_effect.emplace(effect_of(model, engine.memory.fuses_norms, meaning), meaning);
  for (const RecomputeModules set : sets) by_effect.emplace(effect_of(model, engine.memory.fuses_norms, set), set);
  std::vector<RecomputeModules> out;
  for (const auto& [effect, set] : by_effect)
    if (set.any()) out.push_back(set);
  std::sort(out.begin(), out.end());
  return out;
}

void name_modules(const EngineModel& engine, const Model& model, Plan& plan) {
  const RecomputeModules modules = selective_modules(engine, model);
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages)
      for (Chunk& chunk : stage.chunks)
        for (LayerRange& range : chunk.ranges)
          if (Recompute& r = range.strategy.recompute; r.kind == RecomputeKind::selective && !r.modules.any())
            r.modules = modules;
}

}  // namespace espalier
