// SPDX-License-Identifier: Apache-2.0
#include "cost/state_memory.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "plan/key_value.h"

namespace espalier::cost {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::int64_t padded_vocabulary(const Model& model, const EngineModel& engine, std::int32_t weight_tp) {
  if (model.vocabulary == 0) return 0;
  const std::int64_t multiple = std::int64_t{std::max(1, engine.memory.vocabulary_multiple)} * weight_tp;
  return ceil_div(model.vocabulary, multiple) * multiple;
}

ParameterElements parameters_on_rank(const Model& model, const LayerKind& kind, const EngineModel& engine, const Strategy& s) {
  ParameterElements e;
  const std::int64_t tp = s.weight_tp();
  for (const Operator& op : kind.operators) {
    if (op.kind == OperatorKind::expert_linear) {
      e.expert += ceil_div(op.parameters, std::int64_t{s.ep} * s.etp);
    } else if (op.split == TpSplit::vocab && model.vocabulary > 0 && op.parameters % model.vocabulary == 0) {
      e.dense += op.parameters / model.vocabulary * (padded_vocabulary(model, engine, s.weight_tp()) / tp);
    } else if (op.split == TpSplit::none) {
      e.dense += op.parameters;
    } else if (const ReplicatedKeys keys = replicated_keys(kind, op, tp); keys.any()) {
      e.dense +=
          op.parameters / op.out * ((op.out - keys.outputs) / tp + keys.on_rank());  // with its bias: a multiple of the outputs
    } else {
      e.dense += op.parameters_unsplit + ceil_div(op.parameters - op.parameters_unsplit, tp);
    }
  }
  return e;
}

TensorSync tensor_sync(const LayerKind& kind, const Strategy& s) {
  TensorSync sync;
  if (s.weight_tp() == 1) return sync;
  for (const Operator& op : kind.operators) {
    const bool own_tokens = s.sp == SequenceParallel::megatron && op.kind != OperatorKind::embedding;
    const bool own_heads = op.kind == OperatorKind::norm && op.split == TpSplit::heads;
    const bool expert = op.kind == OperatorKind::expert_linear;
    if (!expert && (own_heads || (own_tokens && (op.split == TpSplit::none || op.split == TpSplit::row))))
      sync.whole += op.parameters_unsplit;
    const ReplicatedKeys keys = replicated_keys(kind, op, s.weight_tp());
    if (!keys.any()) continue;
    sync.key_value += op.parameters / op.out * keys.on_rank();
    sync.holders = std::max(sync.holders, s.weight_tp() / keys.kv_heads);
  }
  return sync;
}

std::int64_t table_elements(const Model& model, const EngineModel& engine, const Strategy& s) {
  if (model.vocabulary == 0) return 0;
  for (const Operator& op : model.layer(0).operators)
    if (op.kind == OperatorKind::embedding && op.split == TpSplit::vocab)
      return op.out * (padded_vocabulary(model, engine, s.weight_tp()) / s.weight_tp());
  return 0;
}

std::int64_t reduced_elements(const ParameterElements& e, const Strategy& s) {
  return (s.data_ranks() > 1 ? e.dense : 0) + (s.expert_data_ranks() > 1 ? e.expert : 0);
}

StaticMemory state_memory(const ParameterElements& e, const StatePolicy& states, const Strategy& s) {
  const std::int64_t shard = shards_optimizer(s.zero) ? s.shard : 1;
  ESPALIER_CHECK(shard >= 1 && e.dense >= 0 && e.expert >= 0);
  const std::int64_t expert_shard = std::gcd(shard, s.expert_data_ranks());
  const auto sharded = [&](bool yes) {
    return yes ? ceil_div(e.dense, shard) + ceil_div(e.expert, expert_shard) : e.dense + e.expert;
  };
  StaticMemory m;
  m.parameters = states.parameter * sharded(shards_parameters(s.zero));
  m.gradients = states.gradient * sharded(shards_gradients(s.zero));
  m.optimizer = (std::int64_t{states.master} + states.optimizer) * sharded(shards_optimizer(s.zero));
  return m;
}

}  // namespace espalier::cost
