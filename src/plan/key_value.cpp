// SPDX-License-Identifier: Apache-2.0
#include "plan/key_value.h"

#include <algorithm>

namespace espalier {
namespace {

/// Returns the attention that a linear feeds: the next one in its layer.
const Operator* attention_after(const LayerKind& kind, const Operator& op) {
  for (const Operator* next = &op; next != kind.operators.data() + kind.operators.size(); ++next)
    if (next->kind == OperatorKind::attention) return next;
  return nullptr;
}

}  // namespace

ReplicatedKeys replicated_keys(const LayerKind& kind, const Operator& op, std::int64_t tp) {
  if (tp == 1 || op.kind != OperatorKind::linear || op.split != TpSplit::column) return {};
  const Operator* core = attention_after(kind, op);
  if (core == nullptr || core->kv_heads <= 0 || core->kv_heads >= tp) return {};
  const std::int64_t query = std::int64_t{core->heads} * core->qk_dim, kv = core->kv_heads;
  const std::int64_t keys_values = kv * (std::int64_t{core->qk_dim} + core->v_dim);
  const std::int64_t keys = kv * core->qk_dim;  // for layers whose keys are also values
  if (op.out == query + keys) return {keys, kv};
  if (op.out != keys_values && op.out != query + keys_values) return {};
  return {keys_values, kv};
}

double outputs_on_rank(const LayerKind& kind, const Operator& op, std::int64_t tp) {
  const ReplicatedKeys keys = replicated_keys(kind, op, tp);
  return static_cast<double>(op.out - keys.outputs) / static_cast<double>(tp) +
         static_cast<double>(keys.any() ? keys.on_rank() : 0);
}

}  // namespace espalier
