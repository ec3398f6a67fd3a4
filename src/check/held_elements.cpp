// SPDX-License-Identifier: Apache-2.0
#include "check/held_elements.h"

#include <algorithm>

#include "base/invariant.h"
#include "check/arithmetic.h"
#include "check/expert_instances.h"

namespace espalier::check {
namespace {

/// Appends a span unless it is empty.
void add(std::vector<ElementSpan>& list, std::int64_t from, std::int64_t to) {
  if (from < to) list.push_back({from, to});
}

/// Appends the part-th of `parts` parts of n elements from `from`, each of ⌈n/parts⌉. The last parts may be short or
/// empty.
void add_part(std::vector<ElementSpan>& list, std::int64_t from, std::int64_t n, std::int64_t part, std::int64_t parts) {
  const std::int64_t size = ceil_div(n, parts);
  add(list, from + std::min(n, part * size), from + std::min(n, part * size + size));
}

/// Returns the attention for which the operator at `at` projects keys and values; null if another operator comes
/// first.
const Operator* served_attention(const LayerKind& kind, std::size_t at) {
  for (std::size_t n = at + 1; n < kind.operators.size(); ++n) {
    const Operator& next = kind.operators[n];
    if (next.kind == OperatorKind::attention) return &next;
    if (next.kind != OperatorKind::norm && next.kind != OperatorKind::rotary) return nullptr;
  }
  return nullptr;
}

/// Returns the number of outputs that are keys and values, if the operator computes these (with or without queries);
/// else 0.
std::int64_t key_value_outputs(const Operator& op, const Operator* attention) {
  if (attention == nullptr || op.kind != OperatorKind::linear || op.split != TpSplit::column || attention->kv_heads < 1) return 0;
  const std::int64_t pairs = attention->kv_heads * (std::int64_t{attention->qk_dim} + attention->v_dim);
  const std::int64_t queries = op.out - pairs, keys = std::int64_t{attention->kv_heads} * attention->qk_dim;
  // These keys are also the values.
  if (op.out == std::int64_t{attention->heads} * attention->qk_dim + keys) return keys;
  return queries == 0 || queries == std::int64_t{attention->heads} * attention->qk_dim ? pairs : 0;
}

class RankElements {
 public:
  RankElements(const HeldUnder& how, const LayerKind& kind, std::int64_t position) : how_(&how), kind_(&kind) {
    const Strategy& s = how.strategy;
    tp_ = s.weight_tp();
    t_ = position % tp_;
    x_ = position % s.etp;
    e_ = position / s.etp % s.ep;
    if (!s.shards_optimizer()) return;
    shards_ = s.shard;
    i_ = position / (s.sp == SequenceParallel::ulysses ? 1 : s.tp) % shards_;
    expert_shards_ = expert_shard(s);
    k_ = position / (std::int64_t{s.ep} * s.etp) % expert_shards_;
  }

  HeldElements held() {
    std::int64_t from = 0;
    for (std::size_t n = 0; n < kind_->operators.size(); ++n) {
      const Operator& op = kind_->operators[n];
      const bool table = op.kind == OperatorKind::embedding && op.split == TpSplit::vocab;
      if (table || !how_->table_only) add_operator(n, from);
      from += op.parameters;
    }
    HeldElements out;
    out.whole = dense_;
    out.whole.insert(out.whole.end(), experts_.begin(), experts_.end());
    cut(dense_, i_, shards_, how_->state_shares, out.sharded);
    cut(experts_, k_, expert_shards_, {}, out.sharded);
    return out;
  }

 private:
  void add_operator(std::size_t n, std::int64_t from) {
    const Operator& op = kind_->operators[n];
    if (op.kind == OperatorKind::expert_linear) return add_experts(op, from);
    if (op.split == TpSplit::none) return add(dense_, from, from + op.parameters);
    if (op.split == TpSplit::vocab && how_->vocabulary > 0 && op.parameters % how_->vocabulary == 0) return add_rows(op, from);
    const Operator* attention = served_attention(*kind_, n);
    const std::int64_t pairs = key_value_outputs(op, attention);
    if (pairs > 0 && op.parameters_unsplit == 0 && op.parameters % op.out == 0)
      return add_projection(op, pairs, attention->kv_heads, from);
    ESPALIER_CHECK(op.parameters >= op.parameters_unsplit);
    add(dense_, from, from + op.parameters_unsplit);
    add_part(dense_, from + op.parameters_unsplit, op.parameters - op.parameters_unsplit, t_, tp_);
  }

  /// Adds whole rows of a vocabulary that is padded to a multiple of row_unit · tp.
  void add_rows(const Operator& op, std::int64_t from) {
    const std::int64_t rows = how_->vocabulary, width = op.parameters / rows;
    const std::int64_t on_rank = ceil_div(rows, how_->row_unit * tp_) * how_->row_unit;
    add(dense_, from + std::min(rows, t_ * on_rank) * width, from + std::min(rows, (t_ + 1) * on_rank) * width);
  }

  /// Adds queries by rank. Keys and values are added by rank, or by head where there are fewer heads than ranks.
  void add_projection(const Operator& op, std::int64_t pairs, std::int64_t heads, std::int64_t from) {
    const std::int64_t each = op.parameters / op.out, queries = (op.out - pairs) * each;
    add_part(dense_, from, queries, t_, tp_);
    const bool whole_heads = heads < tp_;
    add_part(dense_, from + queries, pairs * each, whole_heads ? t_ * heads / tp_ : t_, whole_heads ? heads : tp_);
  }

  void add_experts(const Operator& op, std::int64_t from) {
    const Strategy& s = how_->strategy;
    const std::int64_t experts = std::max(1, op.experts), size = op.parameters / experts, on_rank = ceil_div(experts, s.ep);
    for (std::int64_t expert = e_ * on_rank; expert < std::min(experts, (e_ + 1) * on_rank); ++expert)
      add_part(experts_, from + expert * size, size, x_, s.etp);
  }

  /// Appends the part-th of `parts` of the list's elements, counted along it. Parts are equal, or weighted as ⌊n ·
  /// weights before / all weights⌋.
  static void cut(const std::vector<ElementSpan>& list, std::int64_t part, std::int64_t parts,
                  const std::vector<std::int64_t>& weights, std::vector<ElementSpan>& out) {
    std::int64_t n = 0;
    for (const ElementSpan& span : list) n += span.to - span.from;
    std::int64_t first = 0, last = n;
    if (parts > 1 && static_cast<std::int64_t>(weights.size()) == parts) {
      __int128 before = 0, all = 0;
      for (std::int64_t k = 0; k < parts; ++k) {
        const std::int64_t weight = weights[static_cast<std::size_t>(k)];
        if (k < part) before += weight;
        all += weight;
      }
      first = static_cast<std::int64_t>(n * before / all);
      last = static_cast<std::int64_t>(n * (before + weights[static_cast<std::size_t>(part)]) / all);
    } else if (parts > 1) {
      const std::int64_t size = ceil_div(n, parts);
      first = std::min(n, part * size);
      last = std::min(n, first + size);
    }
    std::int64_t passed = 0;
    for (const ElementSpan& span : list) {
      const std::int64_t size = span.to - span.from;
      add(out, span.from + std::clamp<std::int64_t>(first - passed, 0, size),
          span.from + std::clamp<std::int64_t>(last - passed, 0, size));
      passed += size;
    }
  }

  const HeldUnder* how_;
  const LayerKind* kind_;
  std::int64_t tp_ = 1, t_ = 0, x_ = 0, e_ = 0;
  std::int64_t shards_ = 1, i_ = 0, expert_shards_ = 1, k_ = 0;
  std::vector<ElementSpan> dense_, experts_;
};

}  // namespace

HeldElements held_elements(const HeldUnder& how, const LayerKind& kind, std::int64_t position) {
  return RankElements(how, kind, position).held();
}

}  // namespace espalier::check
