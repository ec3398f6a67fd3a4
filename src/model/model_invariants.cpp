// SPDX-License-Identifier: Apache-2.0
#include "model/model_invariants.h"

#include <set>
#include <string>

#include "base/invariant.h"

namespace espalier::model {
namespace {

bool runs_experts(OperatorKind kind) {
  return kind == OperatorKind::router || kind == OperatorKind::dispatch || kind == OperatorKind::expert_linear ||
         kind == OperatorKind::expert_activation || kind == OperatorKind::combine;
}

void check_attention(const Operator& op) {
  ESPALIER_CHECK(op.heads >= 1 && op.kv_heads >= 1);
  ESPALIER_CHECK(op.heads % op.kv_heads == 0);
  ESPALIER_CHECK(op.qk_dim >= 1);
}

void check_operator(const Operator& op) {
  ESPALIER_CHECK(!op.name.empty());
  ESPALIER_CHECK(op.in >= 0 && op.out >= 0);
  ESPALIER_CHECK(op.parameters >= 0);
  ESPALIER_CHECK(op.parameters_unsplit >= 0 && op.parameters_unsplit <= op.parameters);
  ESPALIER_CHECK(op.heads >= 0 && op.kv_heads >= 0);
  ESPALIER_CHECK(op.qk_dim >= 0 && op.v_dim >= 0);
  ESPALIER_CHECK(op.window >= 0 && op.chunk >= 0);
  ESPALIER_CHECK(op.top_k >= 0 && op.top_k <= op.experts);
  ESPALIER_CHECK(!op.frozen && op.adapters == 0);
  if (op.kind == OperatorKind::attention) check_attention(op);
  if (op.kind == OperatorKind::linear) ESPALIER_CHECK(op.in >= 1 && op.out >= 1);
  if (op.kind == OperatorKind::expert_linear) ESPALIER_CHECK(op.in >= 1 && op.out >= 1);
  if (op.kind == OperatorKind::causal_conv) ESPALIER_CHECK(op.chunk >= 1);
  if (op.kind == OperatorKind::cross_entropy) ESPALIER_CHECK(op.in >= 1);
  if (runs_experts(op.kind)) ESPALIER_CHECK(op.experts >= 1 && op.top_k >= 1);
}

void check_kind(const LayerKind& kind) {
  ESPALIER_CHECK(!kind.name.empty());
  ESPALIER_CHECK(!kind.operators.empty());
  ESPALIER_CHECK(kind.hidden >= 0 && kind.carried_hidden >= 0);
  ESPALIER_CHECK(kind.tokens_divisor >= 1);
  ESPALIER_CHECK(kind.fixed_tokens >= 0 && kind.boundary_tokens_fixed >= 0);
  ESPALIER_CHECK(kind.stream != TokenStream::fixed || kind.fixed_tokens >= 1);
  ESPALIER_CHECK(kind.backward);
  std::set<std::string> names;
  for (const Operator& op : kind.operators) {
    check_operator(op);
    ESPALIER_CHECK(names.insert(op.name).second);
  }
}

}  // namespace

void check_model(const Model& model) {
  ESPALIER_CHECK(!model.family.empty());
  ESPALIER_CHECK(model.layers.size() >= 2);
  for (const std::int32_t kind : model.layers) ESPALIER_CHECK(kind >= 0 && kind < static_cast<std::int32_t>(model.kinds.size()));
  ESPALIER_CHECK(model.layer(0).role == LayerRole::embedding);
  ESPALIER_CHECK(model.layer(model.layers.size() - 1).role == LayerRole::head);
  for (const LayerKind& kind : model.kinds) check_kind(kind);
  ESPALIER_CHECK(model.vocabulary >= 0 && model.max_positions >= 0 && model.context_length >= 0 && model.encoder_tokens >= 0);
  ESPALIER_CHECK(!model.tied_embeddings || model.vocabulary >= 1);
  ESPALIER_CHECK(model.mtp_parameters >= 0 && model.mtp_parameters <= parameter_count(model));
}

}  // namespace espalier::model
