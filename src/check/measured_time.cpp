// SPDX-License-Identifier: Apache-2.0
#include "check/measured_time.h"

#include <algorithm>

#include "base/invariant.h"
#include "plan/engine.h"
#include "profile/measured_operators.h"

namespace espalier::check {
namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t parts) { return value / parts + (value % parts != 0 ? 1 : 0); }

/// Returns the output features of a projection on a rank. With fewer key/value heads than ranks, several ranks hold
/// each head.
std::int64_t outputs(const LayerKind& kind, const Operator& op, std::int64_t ranks) {
  for (const Operator& core : kind.operators) {
    if (core.kind != OperatorKind::attention || core.kv_heads <= 0 || core.kv_heads >= ranks) continue;
    const std::int64_t pair = std::int64_t{core.qk_dim} + core.v_dim, shared = pair * core.kv_heads;
    const std::int64_t own = std::int64_t{core.heads} * core.qk_dim;
    if (op.out == own + shared) return rounded_up(own, ranks) + pair;
    if (op.out == shared) return pair;
    if (op.out == own + std::int64_t{core.kv_heads} * core.qk_dim) return rounded_up(own, ranks) + core.qk_dim;
  }
  return rounded_up(op.out, ranks);
}

}  // namespace

std::optional<MeasuredSeconds> measured_seconds(const View& view, const LayerKind& kind, const Operator& op) {
  if (view.engine.measured == nullptr) return std::nullopt;
  const Strategy& s = view.strategy;
  const bool ulysses = s.sp == SequenceParallel::ulysses, splits = op.split != TpSplit::none && !ulysses;
  const std::int64_t ranks = splits ? s.tp : 1, vocabulary = view.model->vocabulary;
  std::int64_t tokens = view.plan->training.sequence.main * view.micro_batch / s.cp;
  profile::MeasuredShape shape;
  shape.kind = op.kind;
  shape.in = op.in;
  shape.out = op.out;
  if (op.kind == OperatorKind::attention) {
    shape = {op.kind,   0,   0, op.heads / s.tp, std::max(1, op.kv_heads / s.tp), op.qk_dim, view.plan->training.sequence.main,
             op.window, s.cp};
  } else {
    if (ulysses || (s.sp == SequenceParallel::megatron && op.split == TpSplit::none)) tokens /= s.tp;
    if (op.kind == OperatorKind::embedding) {
      shape.in = op.split == TpSplit::vocab ? rounded_up(vocabulary, ranks) : op.parameters / std::max<std::int64_t>(1, op.out);
    } else if (op.kind == OperatorKind::cross_entropy) {
      shape.in = rounded_up(op.in, ranks);
      shape.out = 0;
    } else if (op.kind == OperatorKind::linear) {
      if (op.split == TpSplit::row) shape.in = rounded_up(op.in, ranks);
      if (op.split == TpSplit::column) shape.out = outputs(kind, op, ranks);
      if (op.split == TpSplit::vocab) shape.out = rounded_up(vocabulary, ranks);
    } else {
      shape.in = rounded_up(op.in, ranks);
      shape.out = rounded_up(op.out, ranks);
    }
  }
  ESPALIER_CHECK(tokens >= 0 && shape.in >= 0 && shape.out >= 0);
  if (!view.engine.measured->covers(shape)) return MeasuredSeconds{};
  const profile::OperatorTime time = view.engine.measured->at(shape, static_cast<double>(tokens));
  return MeasuredSeconds{time.forward / view.speed, time.input / view.speed, time.weight / view.speed};
}

}  // namespace espalier::check
