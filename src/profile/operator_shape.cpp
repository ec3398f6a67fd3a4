// SPDX-License-Identifier: Apache-2.0
#include "profile/operator_shape.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/division.h"
#include "base/format.h"
#include "plan/key_value.h"

namespace espalier::profile {
namespace {

/// Lists the names in the order of OperatorKind.
constexpr std::array<std::string_view, 20> kKinds = {
    "embedding",     "patch_embed", "norm",        "linear",   "rotary",        "attention",         "dropout",
    "activation",    "residual",    "router",      "dispatch", "expert_linear", "expert_activation", "combine",
    "cross_entropy", "pool",        "causal_conv", "scan",     "chunked_scan",  "gated_delta"};

MeasuredShape attention_of(const Operator& op, const Strategy& s, std::int64_t sequence) {
  MeasuredShape shape;
  shape.kind = op.kind;
  shape.heads = op.heads / s.tp;
  shape.kv_heads = std::max(1, op.kv_heads / s.tp);
  shape.head_dim = op.qk_dim;
  shape.keys = sequence;
  shape.window = op.window;
  shape.ring = s.cp;
  return shape;
}

MeasuredShape linear_of(const LayerKind& kind, const Operator& op, std::int64_t width, std::int64_t vocabulary) {
  MeasuredShape shape{op.kind, op.in, op.out};
  switch (op.split) {
    case TpSplit::column: shape.out = static_cast<std::int64_t>(std::ceil(outputs_on_rank(kind, op, width))); break;
    case TpSplit::row: shape.in = ceil_div(op.in, width); break;
    case TpSplit::vocab: shape.out = ceil_div(vocabulary, width); break;
    case TpSplit::heads: shape.out = ceil_div(op.out, width); break;
    case TpSplit::none: break;
  }
  return shape;
}

}  // namespace

std::span<const std::string_view> kind_names() { return kKinds; }
std::string_view name_of(OperatorKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

std::string to_string(const MeasuredShape& s) {
  if (s.kind != OperatorKind::attention) return cat(name_of(s.kind), " ", s.in, "x", s.out);
  constexpr std::array<std::string_view, 4> kParts{"attention", "scores", "softmax", "values"};
  return cat(kParts[static_cast<std::size_t>(s.part)], ", ", s.heads, " heads of ", s.head_dim, " (", s.kv_heads, " pairs) over ",
             s.keys, s.window > 0 ? cat(", window ", s.window) : "", s.ring > 1 ? cat(", ring of ", s.ring) : "");
}

OperatorWork work_on_rank(const LayerKind& kind, const Operator& op, const Strategy& s, std::int64_t vocabulary,
                          std::int64_t sequence, std::int64_t samples) {
  const bool split = op.split != TpSplit::none, ulysses = s.sp == SequenceParallel::ulysses;
  const std::int64_t width = s.weight_tp();
  std::int64_t tokens = sequence * samples / s.cp;
  // Ulysses splits the tokens of everything but attention, whose heads it splits. Megatron splits the tokens of
  // operators with whole weights.
  const bool shares_tokens = ulysses ? op.kind != OperatorKind::attention : s.sp == SequenceParallel::megatron && !split;
  if (shares_tokens) tokens /= s.tp;
  MeasuredShape shape;
  switch (op.kind) {
    case OperatorKind::attention: shape = attention_of(op, s, sequence); break;
    case OperatorKind::linear: shape = linear_of(kind, op, width, vocabulary); break;
    case OperatorKind::embedding:
      shape = {op.kind,
               op.split == TpSplit::vocab ? ceil_div(vocabulary, width) : op.parameters / std::max<std::int64_t>(1, op.out),
               op.out};
      break;
    case OperatorKind::cross_entropy: shape = {op.kind, split ? ceil_div(op.in, width) : op.in, 0}; break;
    default: shape = {op.kind, split ? ceil_div(op.in, width) : op.in, split ? ceil_div(op.out, width) : op.out}; break;
  }
  return {shape, tokens};
}

OperatorWork work_on_tile(const PartitionedOperator& node, const Operator& op, const partition::PartitionSequence& sequence) {
  const auto size = [&](char letter) -> std::int64_t {
    for (const partition::OperatorDimension& d : node.shape.dimensions)
      if (d.letter == letter) return d.size / partition::slices(sequence, letter);
    return 1;
  };
  const std::int64_t heads = partition::slices(sequence, 'H');
  MeasuredShape shape;
  shape.kind = op.kind;
  if (op.kind == OperatorKind::attention) {
    shape.heads = static_cast<std::int32_t>(op.heads / heads);
    shape.kv_heads = static_cast<std::int32_t>(std::max<std::int64_t>(1, op.kv_heads / heads));
    shape.head_dim = op.qk_dim;
    shape.keys = size('L');
    shape.window = op.window;
    shape.part = node.part;
  } else if (op.kind == OperatorKind::linear) {
    shape.in = size('N');
    shape.out = op.out / partition::slices(sequence, 'K');
  } else {
    const std::int64_t features = partition::slices(sequence, 'N') * heads;
    shape.in = op.in / features;
    shape.out = op.out / features;
  }
  return {shape, size('B') * size('M')};
}

}  // namespace espalier::profile
