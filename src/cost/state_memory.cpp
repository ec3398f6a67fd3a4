// SPDX-License-Identifier: Apache-2.0
#include "cost/state_memory.h"

#include <algorithm>
#include <cmath>

#include "base/division.h"
#include "base/invariant.h"
#include "plan/engine.h"
#include "plan/expert_shard.h"
#include "plan/key_value.h"

namespace espalier::cost {

std::int64_t padded_vocabulary(const Model& model, const EngineModel& engine, std::int32_t weight_tp) {
  if (model.vocabulary == 0) return 0;
  const std::int64_t multiple = std::int64_t{std::max(1, engine.memory.vocabulary_multiple)} * weight_tp;
  return ceil_div(model.vocabulary, multiple) * multiple;
}

namespace {

std::int64_t elements_on_rank(const Model& model, const LayerKind& kind, const EngineModel& engine, const Strategy& s,
                              const Operator& op) {
  const std::int64_t tp = s.weight_tp();
  if (op.kind == OperatorKind::expert_linear) return ceil_div(op.parameters, std::int64_t{s.ep} * s.etp);
  if (op.split == TpSplit::vocab && model.vocabulary > 0 && op.parameters % model.vocabulary == 0)
    return op.parameters / model.vocabulary * (padded_vocabulary(model, engine, s.weight_tp()) / tp);
  if (op.split == TpSplit::none) return op.parameters;
  // The bias is included: parameters are a multiple of the outputs.
  if (const ReplicatedKeys keys = replicated_keys(kind, op, tp); keys.any())
    return op.parameters / op.out * ((op.out - keys.outputs) / tp + keys.on_rank());
  return op.parameters_unsplit + ceil_div(op.parameters - op.parameters_unsplit, tp);
}

struct AdapterElements {
  std::int64_t divided = 0;  ///< a rank's part of what is divided over tp
  std::int64_t whole = 0;    ///< elements on every rank of the tensor group
};
AdapterElements adapter_on_rank(const EngineModel& engine, const Strategy& s, const Operator& op) {
  const std::int64_t a = std::int64_t{op.adapter_rank} * op.adapters * op.in, b = op.adapter_rank * op.adapter_out;
  const std::int64_t tp = s.weight_tp();
  if (tp == 1 || op.split == TpSplit::none) return {0, a + b};
  if (engine.memory.splits_adapters) return {ceil_div(a, tp) + ceil_div(b, tp), 0};
  return op.split == TpSplit::row ? AdapterElements{ceil_div(a, tp), b} : AdapterElements{ceil_div(b, tp), a};
}

}  // namespace

ParameterElements parameters_on_rank(const Model& model, const LayerKind& kind, const EngineModel& engine,
                                     const Training& training, const Strategy& s) {
  ParameterElements e;
  for (const Operator& op : kind.operators) {
    const bool expert = op.kind == OperatorKind::expert_linear;
    const std::int64_t held = elements_on_rank(model, kind, engine, s, op);
    if (!op.frozen) {
      (expert ? e.expert : e.dense) += held;
      continue;
    }
    const double each = frozen_bytes(states_of(engine, training), training, kind, op);
    (expert ? e.frozen_expert : e.frozen_dense) += static_cast<std::int64_t>(std::ceil(static_cast<double>(held) * each));
    const AdapterElements adapter = adapter_on_rank(engine, s, op);
    e.dense += adapter.divided + adapter.whole;
  }
  return e;
}

TensorSync tensor_sync(const LayerKind& kind, const EngineModel& engine, const Strategy& s) {
  TensorSync sync;
  if (s.weight_tp() == 1) return sync;
  for (const Operator& op : kind.operators) {
    if (op.frozen) {  // the part of its adapter that every rank holds whole, where ranks have tokens of their own
      if (op.adapters > 0 && s.sp == SequenceParallel::megatron) sync.whole += adapter_on_rank(engine, s, op).whole;
      continue;
    }
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

ParameterElements table_elements(const Model& model, const EngineModel& engine, const Training& training, const Strategy& s) {
  if (model.vocabulary == 0) return {};
  for (const Operator& op : model.layer(0).operators) {
    if (op.kind != OperatorKind::embedding || op.split != TpSplit::vocab) continue;
    const std::int64_t held = op.out * (padded_vocabulary(model, engine, s.weight_tp()) / s.weight_tp());
    if (!op.frozen) return {held, 0};
    const double each = frozen_bytes(states_of(engine, training), training, model.layer(0), op);
    return {0, 0, static_cast<std::int64_t>(std::ceil(static_cast<double>(held) * each)), 0};
  }
  return {};
}

std::int64_t reduced_elements(const ParameterElements& e, const Strategy& s) {
  return (s.data_ranks() > 1 ? e.dense : 0) + (s.expert_data_ranks() > 1 ? e.expert : 0);
}

OwnElements own_elements(const ParameterElements& e, const Strategy& s) {
  const double shard = s.shards_optimizer() ? static_cast<double>(s.shard) : 1.0;
  const auto expert_shard = static_cast<double>(expert_shard_of(s));
  return {static_cast<double>(e.dense) / shard + static_cast<double>(e.expert) / expert_shard,
          static_cast<double>(e.frozen_dense) / shard + static_cast<double>(e.frozen_expert) / expert_shard};
}

StaticMemory state_memory(const ParameterElements& e, const StatePolicy& states, const Strategy& s, std::int64_t parts) {
  const std::int64_t shard = s.shards_optimizer() ? s.shard : 1;
  ESPALIER_CHECK(shard >= 1 && e.dense >= 0 && e.expert >= 0);
  const std::int64_t expert_shard = expert_shard_of(s);
  const auto sharded = [&](bool yes) {
    return yes ? ceil_div(e.dense, shard) + ceil_div(e.expert, expert_shard) : e.dense + e.expert;
  };
  const std::int64_t frozen = s.shards_parameters() ? ceil_div(e.frozen_dense, shard) + ceil_div(e.frozen_expert, expert_shard)
                                                    : e.frozen_dense + e.frozen_expert;
  StaticMemory m;
  m.parameters = frozen + states.parameter * sharded(s.shards_parameters());
  const bool frees = states.frees_reduced && s.zero == ZeroStage::optimizer && parts != 1;
  m.gradients = states.gradient * sharded(s.shards_gradients() || frees);
  if (frees && parts != kAnyParts) m.gradients += states.gradient * ceil_div(e.dense + e.expert, parts);
  const bool copied = states.autograd >= 4;  // by the optimizer, for its shard, where it runs
  const std::int64_t copies = states.autograd * sharded(copied && s.shards_optimizer());
  m.optimizer = (std::int64_t{states.master} + states.optimizer) * sharded(s.shards_optimizer());
  if (offloads_optimizer(s.offload)) {
    m.host = m.optimizer + (copied ? copies : 0) + states.host_gradient * sharded(s.shards_optimizer());
    m.optimizer = 0;
  }
  if (!copied || !offloads_optimizer(s.offload)) m.gradients += copies;
  if (offloads_parameters(s.offload)) {
    m.host += m.parameters + m.gradients;
    m.parameters = m.gradients = 0;
  }
  return m;
}

}  // namespace espalier::cost
