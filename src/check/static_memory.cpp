// SPDX-License-Identifier: Apache-2.0
#include "check/static_memory.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "check/arithmetic.h"
#include "check/operator_partition.h"

namespace espalier::check {
namespace {

/// Elements of a tensor of `elements` over the vocabulary, after padding and the split.
std::int64_t vocabulary_share(std::int64_t elements, const View& view) {
  const std::int64_t vocabulary = view.model->vocabulary;
  const std::int64_t unit = view.engine.memory.vocabulary_multiple;
  const std::int64_t rows = ceil_div(vocabulary, unit * view.strategy.weight_tp()) * unit;
  return elements / vocabulary * rows;
}

/// Output features of `op` on a rank where it computes keys and values for `attention` (null: for none) of fewer heads than ranks: each
/// rank holds one whole head of them, not a part of one. 0: nothing is replicated.
std::int64_t replicated_width(const View& view, const Operator& op, const Operator* attention) {
  if (attention == nullptr || op.kind != OperatorKind::linear || op.split != TpSplit::column) return 0;
  const std::int64_t ranks = view.strategy.weight_tp(), heads = attention->kv_heads;
  if (heads >= ranks || heads < 1) return 0;
  const std::int64_t head = std::int64_t{attention->qk_dim} + attention->v_dim, queries = op.out - heads * head;
  if (queries != 0 && queries != std::int64_t{attention->heads} * attention->qk_dim)
    return 0;  // keys and values of another shape
  return queries / ranks + head;
}

/// The attention that `ops[i]` computes queries, keys or values for: the next operator, norms of heads and rotations aside.
const Operator* attention_after(const std::vector<Operator>& ops, std::size_t i) {
  for (std::size_t n = i + 1; n < ops.size(); ++n) {
    if (ops[n].kind == OperatorKind::attention) return &ops[n];
    const bool between = ops[n].kind == OperatorKind::norm || ops[n].kind == OperatorKind::rotary;
    if (!between) return nullptr;
  }
  return nullptr;
}

void add_operator(const View& view, const std::vector<Operator>& ops, std::size_t i, StageElements& sum) {
  const Operator& op = ops[i];
  const Strategy& s = view.strategy;
  if (op.kind == OperatorKind::expert_linear) {
    sum.expert += ceil_div(op.parameters, std::int64_t{s.ep} * s.etp);
  } else if (op.split == TpSplit::vocab && view.model->vocabulary > 0) {
    sum.dense += vocabulary_share(op.parameters, view);
  } else if (const std::int64_t width = replicated_width(view, op, attention_after(ops, i)); width > 0) {
    sum.dense += width * (op.in + (op.parameters > op.in * op.out ? 1 : 0));
  } else {
    sum.dense += op.parameters_unsplit + ceil_div(op.parameters - op.parameters_unsplit, s.weight_tp());
  }
}

/// A look-up in the embedding's own table: it has no parameters of its own.
bool looks_up_shared_table(const Operator& op) {
  return op.kind == OperatorKind::embedding && op.split == TpSplit::vocab && op.parameters == 0;
}

}  // namespace

StageElements elements_of_layer(const View& view, const LayerKind& kind) {
  StageElements sum;
  if (!view.strategy.partition.empty() && kind.role == LayerRole::block) {
    sum.dense = partitioned_parameters(view, kind);
    return sum;
  }
  for (std::size_t n = 0; n < kind.operators.size(); ++n) add_operator(view, kind.operators, n, sum);
  return sum;
}

StatePolicy bytes_of(const View& view) {
  StatePolicy bytes = view.engine.memory.states;
  const Precision precision = view.plan->training.precision;
  if (precision == Precision::fp32 || precision == Precision::tf32) {
    bytes.parameter = bytes.gradient = bytes.reduce = bytes.gather = 4;
    bytes.master = 0;
  }
  if (view.plan->training.optimizer == Optimizer::sgd) bytes.optimizer = 4;
  if (freezes_weights(view.plan->training.optimizer)) {  // frozen weights in the type of compute; adapters are not counted
    bytes.parameter = std::min(bytes.parameter, bytes.gather);
    bytes.gradient = bytes.master = bytes.optimizer = bytes.reduce = 0;
  }
  return bytes;
}

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
        const StageElements layer = elements_of_layer(under, view.model->layer(static_cast<std::size_t>(i)));
        sum.dense += layer.dense;
        sum.expert += layer.expert;
      }
    }
  }
  const Strategy& table = view.chunks.front().ranges.front().strategy;
  for (const std::int32_t stage : table_copies(view)) {
    held_under(stages[static_cast<std::size_t>(stage)], table).dense += table_elements(view_of(view, table));
  }
  return stages;
}

/// `part`: of what ZeRO shards, relative to an equal one.
std::int64_t static_bytes(const StatePolicy& bytes, const Strategy& s, const StageElements& e, double part) {
  const std::int64_t expert_shard = std::gcd(std::int64_t{s.shard}, s.expert_data_ranks());
  const auto held = [&](bool sharded) {
    return sharded ? ceil_div(e.dense, s.shard) + ceil_div(e.expert, expert_shard) : e.dense + e.expert;
  };
  const auto of = [&](std::int64_t each, bool sharded) {
    const std::int64_t all = each * held(sharded);
    return sharded && part != 1.0 ? static_cast<std::int64_t>(std::ceil(static_cast<double>(all) * part)) : all;
  };
  return of(bytes.parameter, shards_parameters(s.zero)) + of(bytes.gradient, shards_gradients(s.zero)) +
         of(bytes.master + bytes.optimizer, shards_optimizer(s.zero));
}

}  // namespace

std::int64_t table_elements(const View& view) {
  for (const Operator& op : view.model->layer(0).operators)
    if (op.kind == OperatorKind::embedding && op.split == TpSplit::vocab) return vocabulary_share(op.parameters, view);
  return 0;
}

bool uses_table(const View& view, std::size_t chunk) {
  if (view.model->vocabulary == 0) return false;
  for (std::int32_t i = view.chunks[chunk].first(); i <= view.chunks[chunk].last(); ++i) {
    const LayerKind& kind = view.model->layer(static_cast<std::size_t>(i));
    if (i == 0 || (kind.role == LayerRole::head && view.model->tied_embeddings)) return true;
    if (std::any_of(kind.operators.begin(), kind.operators.end(), looks_up_shared_table)) return true;
  }
  return false;
}

std::vector<std::int32_t> table_copies(const View& view) {
  std::vector<std::int32_t> stages;
  for (std::size_t c = 0; c < view.chunks.size(); ++c)
    if (view.stage_of[c] != view.stage_of.front() && uses_table(view, c)) stages.push_back(view.stage_of[c]);
  std::sort(stages.begin(), stages.end());
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  return stages;
}

std::vector<std::int32_t> table_holders(const View& view) {
  std::vector<std::int32_t> stages = table_copies(view);
  if (!stages.empty()) stages.insert(stages.begin(), view.stage_of.front());
  return stages;
}

std::vector<StageElements> elements_per_stage(const View& view) {
  std::vector<StageElements> stages;
  for (const StageHeld& stage : held_per_stage(view)) {
    StageElements sum;
    for (const Held& h : stage) {
      sum.dense += h.elements.dense;
      sum.expert += h.elements.expert;
    }
    stages.push_back(sum);
  }
  return stages;
}

std::vector<std::int64_t> static_bytes_per_stage(const View& view) {
  const StatePolicy bytes = bytes_of(view);
  std::vector<std::int64_t> result;
  for (const StageHeld& stage : held_per_stage(view)) {
    std::int64_t sum = 0;
    const double part = view.states_of_stage.empty() ? 1.0 : view.states_of_stage[result.size()];
    for (const Held& h : stage) sum += static_bytes(bytes, h.strategy, h.elements, part);
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
