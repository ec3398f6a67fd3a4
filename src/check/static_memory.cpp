// SPDX-License-Identifier: Apache-2.0
#include "check/static_memory.h"

#include <numeric>

#include "check/arithmetic.h"
#include "check/operator_partition.h"
#include "plan/shared_table.h"

namespace espalier::check {
namespace {

/// Elements of a tensor of `elements` over the vocabulary, after padding and the split.
std::int64_t vocabulary_share(std::int64_t elements, const View& view) {
  const std::int64_t vocabulary = view.model->vocabulary;
  const std::int64_t unit = view.engine.vocabulary_multiple;
  const std::int64_t rows = ceil_div(vocabulary, unit * view.strategy.weight_tp()) * unit;
  return elements / vocabulary * rows;
}

/// Of a projection to fewer key/value heads than ranks: elements of one output, and outputs on a rank; 0 of any other linear.
std::int64_t grouped_elements(const LayerKind& kind, const Operator& op, std::int64_t ranks) {
  if (op.kind != OperatorKind::linear || op.split != TpSplit::column) return 0;
  for (const Operator* next = &op; next <= &kind.operators.back(); ++next) {
    if (next->kind != OperatorKind::attention) continue;
    const std::int64_t one = next->qk_dim + next->v_dim, keys = next->kv_heads * one;
    const std::int64_t queries = std::int64_t{next->heads} * next->qk_dim;
    if (next->kv_heads >= ranks || (op.out != keys && op.out != keys + queries)) return 0;
    return op.parameters / op.out * ((op.out - keys) / ranks + one);
  }
  return 0;
}

void add_operator(const View& view, const LayerKind& kind, const Operator& op, StageElements& sum) {
  const Strategy& s = view.strategy;
  if (const std::int64_t grouped = grouped_elements(kind, op, s.weight_tp()); grouped > 0) {
    sum.dense += grouped;
    return;
  }
  if (op.kind == OperatorKind::expert_linear) {
    sum.expert += ceil_div(op.parameters, std::int64_t{s.ep} * s.etp);
  } else if (op.split == TpSplit::vocab && view.model->vocabulary > 0) {
    sum.dense += vocabulary_share(op.parameters, view);
  } else {
    sum.dense += op.parameters_unsplit + ceil_div(op.parameters - op.parameters_unsplit, s.weight_tp());
  }
}

StatePolicy bytes_of(const View& view) {
  StatePolicy bytes = view.engine.states;
  const Precision precision = view.plan->training.precision;
  if (precision == Precision::fp32 || precision == Precision::tf32) {
    bytes.parameter = bytes.gradient = bytes.reduce = 4;
    bytes.master = 0;
  }
  if (view.plan->training.optimizer == "sgd") bytes.optimizer = 4;
  return bytes;
}

}  // namespace

namespace {

/// Elements of a stage by the strategy that holds them; how layers are recomputed makes no difference to what they hold.
struct Held {
  Strategy strategy;
  StageElements elements;
};
using StageHeld = std::vector<Held>;

StageElements& held_under(StageHeld& stage, const Strategy& s) {
  Strategy key = s;
  key.recompute = Recompute{};
  for (Held& h : stage)
    if (h.strategy == key) return h.elements;
  stage.push_back({key, {}});
  return stage.back().elements;
}

std::vector<StageHeld> held_per_stage(const View& view) {
  std::vector<StageHeld> stages(static_cast<std::size_t>(view.stages));
  for (std::size_t c = 0; c < view.chunks.size(); ++c) {
    for (const LayerRange& range : view.chunks[c].ranges) {
      const View under = view_of(view, range.strategy);
      StageElements& sum = held_under(stages[static_cast<std::size_t>(view.stage_of[c])], range.strategy);
      for (std::int32_t i = range.first; i <= range.last; ++i) {
        const LayerKind& kind = view.model->layer(static_cast<std::size_t>(i));
        if (!range.strategy.partition.empty() && kind.role == LayerRole::block) {
          sum.dense += partitioned_parameters(under, kind);
          continue;
        }
        for (const Operator& op : kind.operators) add_operator(under, kind, op, sum);
      }
    }
  }
  std::vector<std::int32_t> layers, copies;
  for (const Chunk& chunk : view.chunks) layers.push_back(chunk.last() - chunk.first() + 1);
  table_chunks(*view.model, view.plan->schedule, layers, copies);
  const Strategy& embedding = view.chunks.front().ranges.front().strategy;
  for (std::size_t c = 1; c < copies.size(); ++c) {
    const auto stage = static_cast<std::size_t>(view.stage_of[static_cast<std::size_t>(copies[c])]);
    for (const Operator& op : view.model->layer(0).operators)
      if (op.kind == OperatorKind::embedding && op.split == TpSplit::vocab)
        held_under(stages[stage], embedding).dense += vocabulary_share(op.parameters, view_of(view, embedding));
  }
  return stages;
}

std::int64_t static_bytes(const StatePolicy& bytes, const Strategy& s, const StageElements& e) {
  const std::int64_t expert_shard = std::gcd(std::int64_t{s.shard}, s.expert_data_ranks());
  const auto held = [&](std::int32_t from_stage) {
    return s.zero >= from_stage ? ceil_div(e.dense, s.shard) + ceil_div(e.expert, expert_shard) : e.dense + e.expert;
  };
  return bytes.parameter * held(3) + bytes.gradient * held(2) + (bytes.master + bytes.optimizer) * held(1);
}

}  // namespace

std::vector<StageElements> elements_per_stage(const View& view) {
  std::vector<StageElements> stages;
  for (const StageHeld& stage : held_per_stage(view)) {
    StageElements sum;
    for (const Held& h : stage) sum.dense += h.elements.dense, sum.expert += h.elements.expert;
    stages.push_back(sum);
  }
  return stages;
}

std::vector<std::int64_t> static_bytes_per_stage(const View& view) {
  const StatePolicy bytes = bytes_of(view);
  std::vector<std::int64_t> result;
  for (const StageHeld& stage : held_per_stage(view)) {
    std::int64_t sum = 0;
    for (const Held& h : stage) sum += static_bytes(bytes, h.strategy, h.elements);
    result.push_back(sum);
  }
  return result;
}

std::vector<std::int64_t> gradient_bytes_per_stage(const View& view) {
  const StatePolicy bytes = bytes_of(view);
  std::vector<std::int64_t> result;
  for (const StageHeld& stage : held_per_stage(view)) {
    std::int64_t sum = 0;
    for (const Held& h : stage) {
      sum += h.strategy.data_ranks() > 1 ? h.elements.dense : 0;
      sum += h.strategy.expert_data_ranks() > 1 ? h.elements.expert : 0;
    }
    result.push_back(bytes.reduce * sum);
  }
  return result;
}

}  // namespace espalier::check
