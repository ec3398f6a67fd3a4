// SPDX-License-Identifier: Apache-2.0
#include "check/run_again.h"
#include "plan/engine.h"

#include <algorithm>

namespace espalier::check {
namespace {

using enum OperatorKind;

class RecomputedBlock {
 public:
  RecomputedBlock(const View& view, const LayerKind& kind)
      : ops_(kind.operators),
        hidden_(kind.hidden),
        set_(modules_of(view)),
        fuses_(view.engine.memory.fuses_norms),
        second_products_(view.figures.second_products_again),
        exchanged_(view.strategy.ep > 1) {}

  RunAgain of(std::size_t i) const {
    const Operator& op = ops_[i];
    RunAgain out;
    switch (op.kind) {
      case norm: out.share = norm_again(i) ? 1 : 0; break;
      case attention:
        out.share = set_.has(RecomputeModule::core_attn) ? 1 : 0;
        out.communication = out.share > 0;
        break;
      case activation:
        out.dropped = whole(i);
        out.share = activation_again(i) ? 1 : 0;
        break;
      case linear: product(i, out); break;
      case router:
        out.dropped = whole(i);
        out.share = out.dropped ? 1 : 0;
        out.source_dropped = last_norm_again(i);
        break;
      case dispatch:
      case combine:
        out.communication = whole(i);
        out.dropped = whole(i) || (set_.has(RecomputeModule::grouped_mm) && !exchanged_);
        out.share = whole(i) || (set_.has(RecomputeModule::grouped_mm) && op.kind == dispatch) ? 1 : 0;
        break;
      case expert_linear:
        out.dropped = whole(i) || set_.has(RecomputeModule::grouped_mm);
        out.share = out.dropped ? 1 : 0;
        out.source_dropped = i > 0 && ops_[i - 1].kind == expert_activation && set_.has(RecomputeModule::moe_act);
        break;
      case expert_activation:
        out.dropped = whole(i) || set_.has(RecomputeModule::grouped_mm);
        out.share = out.dropped || set_.has(RecomputeModule::moe_act) ? 1 : 0;
        break;
      default: break;
    }
    return out;
  }

 private:
  static bool mixes(OperatorKind k) {
    return k == attention || k == scan || k == chunked_scan || k == gated_delta || k == causal_conv;
  }
  [[nodiscard]] std::size_t piece_begin(std::size_t i) const {
    while (i > 0 && ops_[i - 1].kind != residual) --i;
    return i;
  }
  [[nodiscard]] std::size_t piece_end(std::size_t i) const {
    while (i < ops_.size() && ops_[i].kind != residual) ++i;
    return i;
  }
  [[nodiscard]] bool mixing(std::size_t i) const {
    const std::size_t begin = piece_begin(i), end = piece_end(i);
    std::size_t last = end;
    for (std::size_t n = begin; n < end; ++n)
      if (mixes(ops_[n].kind)) last = n;
    if (last == end) return false;
    std::size_t projection = last;
    while (projection < end && ops_[projection].kind != linear) ++projection;
    return i <= projection;
  }
  [[nodiscard]] bool routed(std::size_t i) const {
    return std::any_of(ops_.begin() + static_cast<std::ptrdiff_t>(piece_begin(i)),
                       ops_.begin() + static_cast<std::ptrdiff_t>(piece_end(i)),
                       [](const Operator& op) { return op.kind == router; });
  }
  [[nodiscard]] bool in_mlp(std::size_t i) const { return !mixing(i) && !routed(i); }
  [[nodiscard]] bool of_shared_experts(std::size_t i) const {
    return !mixing(i) && routed(i) && (ops_[i].kind == linear || ops_[i].kind == activation);
  }

  /// Returns whether the operator belongs to a module that runs again as a whole.
  [[nodiscard]] bool whole(std::size_t i) const {
    if (mixing(i)) return false;
    if (!routed(i)) return set_.has(RecomputeModule::mlp);
    return set_.has(RecomputeModule::moe) || (of_shared_experts(i) && set_.has(RecomputeModule::shared_experts));
  }

  /// Returns whether it is a column product before attention whose input width differs from the layer's.
  [[nodiscard]] bool of_latent(std::size_t i) const {
    if (i >= ops_.size() || ops_[i].kind != linear || ops_[i].split != TpSplit::column || ops_[i].in == hidden_) return false;
    for (std::size_t n = i; n < piece_end(i); ++n)
      if (ops_[n].kind == attention) return true;
    return false;
  }
  [[nodiscard]] bool fused(std::size_t i) const {
    if (!fuses_ || i + 1 == ops_.size() || ops_[i + 1].kind != linear || ops_[i + 1].split != TpSplit::column) return false;
    if (ops_[i + 1].in != ops_[i].in || (!mixing(i) && routed(i))) return false;
    if (!mixing(i) || of_latent(i + 1)) return true;
    for (std::size_t n = 0; n < ops_.size(); ++n)
      if (of_latent(n)) return false;
    return true;
  }
  [[nodiscard]] bool norm_again(std::size_t i) const {
    if (of_latent(i + 1) && set_.has(RecomputeModule::mla_up_proj)) return true;
    if (!fused(i)) return set_.has(RecomputeModule::layernorm);
    return in_mlp(i) && set_.has(RecomputeModule::mlp);
  }
  [[nodiscard]] bool activation_again(std::size_t i) const { return whole(i) || set_.has(RecomputeModule::act); }
  [[nodiscard]] bool last_norm_again(std::size_t i) const {
    for (std::size_t n = i; n > piece_begin(i); --n)
      if (ops_[n - 1].kind == norm) return norm_again(n - 1);
    return false;
  }
  [[nodiscard]] std::int64_t last_norm_width(std::size_t i) const {
    for (std::size_t n = i; n > piece_begin(i); --n)
      if (ops_[n - 1].kind == norm) return ops_[n - 1].in;
    return 0;
  }
  /// Returns whether a dense product of the same module precedes it in the piece.
  [[nodiscard]] bool behind_another(std::size_t i) const {
    for (std::size_t n = piece_begin(i); n < i; ++n)
      if (ops_[n].kind == linear && !mixing(n)) return true;
    return false;
  }

  void product(std::size_t i, RunAgain& out) const {
    const Operator& op = ops_[i];
    const OperatorKind before = i > piece_begin(i) ? ops_[i - 1].kind : residual;
    out.dropped = out.communication = whole(i);
    if (out.dropped || (of_latent(i) && set_.has(RecomputeModule::mla_up_proj)))
      out.share = 1;
    else if (set_.has(RecomputeModule::every_second_mm) && op.split != TpSplit::vocab)
      out.share = second_products_;
    const bool beside_router = of_shared_experts(i) && op.in == last_norm_width(i);
    out.source_dropped = ((before == norm || beside_router) && last_norm_again(i)) ||
                         (before == activation && activation_again(i - 1)) || (out.dropped && behind_another(i));
    out.enters_shared = of_shared_experts(i) && set_.has(RecomputeModule::moe);
  }

  const std::vector<Operator>& ops_;
  std::int64_t hidden_;
  RecomputeModules set_;
  bool fuses_;
  double second_products_;
  bool exchanged_;
};

}  // namespace

RecomputeModules modules_of(const View& view) {
  const RecomputeModules own = view.strategy.recompute.modules;
  return own.any() ? own : view.engine.memory.selective;
}

std::vector<RunAgain> run_again(const View& view, const LayerKind& kind) {
  std::vector<RunAgain> out(kind.operators.size());
  if (kind.role != LayerRole::block) return out;
  const RecomputedBlock block(view, kind);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = block.of(i);
  return out;
}

FromLatents from_latents(const LayerKind& kind, std::size_t core) {
  FromLatents made;
  for (std::size_t i = core; i-- > 0 && kind.operators[i].kind != residual;) {
    const Operator& op = kind.operators[i];
    if (op.kind != linear || op.split != TpSplit::column || op.in == kind.hidden) continue;
    const Operator& attention = kind.operators[core];
    (op.out == std::int64_t{attention.heads} * attention.qk_dim ? made.queries : made.keys) = true;
  }
  return made;
}

}  // namespace espalier::check
