// SPDX-License-Identifier: Apache-2.0
#include "check/static_memory.h"

#include <algorithm>
#include <cmath>

#include "base/invariant.h"
#include "check/arithmetic.h"
#include "check/expert_instances.h"
#include "check/partition_text.h"
#include "plan/engine.h"

namespace espalier::check {
namespace {

/// Returns the rank's elements of a tensor of `elements` over the vocabulary, after padding and the split.
std::int64_t vocabulary_share(std::int64_t elements, const View& view) {
  const std::int64_t vocabulary = view.model->vocabulary;
  const std::int64_t unit = view.engine.memory.vocabulary_multiple;
  const std::int64_t rows = ceil_div(vocabulary, unit * view.strategy.weight_tp()) * unit;
  return elements / vocabulary * rows;
}

/// Returns the output features of `op` on a rank if it computes keys and values for `attention` with fewer heads than
/// ranks. Each rank then holds one whole head, not a part of one. 0: nothing is replicated. `attention` is null if
/// there is none.
std::int64_t replicated_width(const View& view, const Operator& op, const Operator* attention) {
  if (attention == nullptr || op.kind != OperatorKind::linear || op.split != TpSplit::column) return 0;
  const std::int64_t ranks = view.strategy.weight_tp(), heads = attention->kv_heads;
  if (heads >= ranks || heads < 1) return 0;
  const std::int64_t head = std::int64_t{attention->qk_dim} + attention->v_dim, queries = op.out - heads * head;
  const std::int64_t asked = std::int64_t{attention->heads} * attention->qk_dim;
  // These keys are also the values.
  if (op.out == asked + heads * attention->qk_dim) return asked / ranks + attention->qk_dim;
  // These keys and values have another shape.
  if (queries != 0 && queries != asked) return 0;
  return queries / ranks + head;
}

/// Returns the attention for which `ops[i]` computes queries, keys or values: the next operator, skipping norms of
/// heads and rotations.
const Operator* attention_after(const std::vector<Operator>& ops, std::size_t i) {
  for (std::size_t n = i + 1; n < ops.size(); ++n) {
    if (ops[n].kind == OperatorKind::attention) return &ops[n];
    const bool between = ops[n].kind == OperatorKind::norm || ops[n].kind == OperatorKind::rotary;
    if (!between) return nullptr;
  }
  return nullptr;
}

std::int64_t weights_of(const View& view, const std::vector<Operator>& ops, std::size_t i) {
  const Operator& op = ops[i];
  const Strategy& s = view.strategy;
  if (op.kind == OperatorKind::expert_linear) return ceil_div(op.parameters, std::int64_t{s.ep} * s.etp);
  if (op.split == TpSplit::vocab && view.model->vocabulary > 0) return vocabulary_share(op.parameters, view);
  if (const std::int64_t width = replicated_width(view, op, attention_after(ops, i)); width > 0)
    return width * (op.in + (op.parameters > op.in * op.out ? 1 : 0));
  return op.parameters_unsplit + ceil_div(op.parameters - op.parameters_unsplit, s.weight_tp());
}

/// Returns the elements of both matrices of an adapter on a rank. Each is divided over tp at the side where its
/// linear is, or both are (Megatron's).
std::int64_t adapter_weights(const View& view, const Operator& op) {
  const std::int64_t down = std::int64_t{op.adapters} * op.adapter_rank * op.in, up = op.adapter_rank * op.adapter_out;
  const std::int64_t parts = op.split == TpSplit::none ? 1 : view.strategy.weight_tp();
  const bool both = view.engine.memory.splits_adapters, row = op.split == TpSplit::row;
  return ceil_div(down, both || row ? parts : 1) + ceil_div(up, both || !row ? parts : 1);
}

std::int64_t bytes_kept(std::int64_t elements, double each) {
  return static_cast<std::int64_t>(std::ceil(each * static_cast<double>(elements)));
}

void add_operator(const View& view, const LayerKind& kind, std::size_t i, StageElements& sum) {
  const Operator& op = kind.operators[i];
  const std::int64_t weights = weights_of(view, kind.operators, i);
  const bool expert = op.kind == OperatorKind::expert_linear;
  if (op.frozen)
    (expert ? sum.frozen_expert : sum.frozen_dense) += bytes_kept(weights, frozen_element_bytes(view, kind, op));
  else
    (expert ? sum.expert : sum.dense) += weights;
  if (op.adapters > 0) sum.dense += adapter_weights(view, op);
}

/// Returns whether a look-up uses the embedding's own table, so that it has no parameters of its own.
bool looks_up_shared_table(const Operator& op) {
  return op.kind == OperatorKind::embedding && op.split == TpSplit::vocab && op.parameters == 0;
}

}  // namespace

StageElements elements_of_layer(const View& view, const LayerKind& kind) {
  StageElements sum;
  if (partitions(view.strategy, kind)) {
    sum.dense = partitioned_parameters(view, kind);
    return sum;
  }
  for (std::size_t n = 0; n < kind.operators.size(); ++n) add_operator(view, kind, n, sum);
  return sum;
}

/// Returns the bytes of a frozen element. In NF4 (Dettmers et al. 2023), 16,384 elements take 4 bits each, 256
/// constants of a byte and one of four bytes.
double frozen_element_bytes(const View& view, const LayerKind& kind, const Operator& op) {
  const StatePolicy bytes = bytes_of(view);
  const bool product = op.kind == OperatorKind::linear || op.kind == OperatorKind::expert_linear;
  if (kind.role != LayerRole::block || !product) return std::min(bytes.parameter, bytes.gather);
  switch (view.plan->training.adapter.base) {
    case FrozenType::nf4: return (16384 * 4 / 8 + 256 + 4) / 16384.0;
    case FrozenType::int8: return 1;
    case FrozenType::compute: break;
  }
  return std::min(bytes.parameter, bytes.gather);
}

StatePolicy bytes_of(const View& view) {
  StatePolicy bytes = view.engine.memory.states;
  const Precision precision = view.plan->training.precision;
  if (precision == Precision::fp32 || precision == Precision::tf32) {
    bytes.parameter = bytes.gradient = bytes.reduce = bytes.gather = 4;
    bytes.master = bytes.autograd = bytes.host_gradient = 0;
  }
  if (view.plan->training.optimizer == Optimizer::sgd) bytes.optimizer = 4;
  return bytes;
}

namespace {

/// Holds the elements of a stage by the strategy that holds them. Recomputation does not affect them.
struct HeldByStrategy {
  Strategy strategy;
  StageElements elements;
};
using StageHeld = std::vector<HeldByStrategy>;

StageElements& held_under(StageHeld& stage, const Strategy& s) {
  Strategy key = s;
  key.recompute = Recompute{};
  for (HeldByStrategy& h : stage)
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
        sum += elements_of_layer(under, view.model->layer(static_cast<std::size_t>(i)));
      }
    }
  }
  const Strategy& table = view.chunks.front().ranges.front().strategy;
  for (const std::int32_t stage : table_copies(view)) {
    held_under(stages[static_cast<std::size_t>(stage)], table) += table_share(view_of(view, table));
  }
  return stages;
}

struct Kept {
  std::int64_t device = 0, host = 0;
};

/// Returns how many chunks of a stage keep their gradients apart. If the passes of a chunk follow each other, a
/// gradient that is freed after its reduction is whole for one chunk at a time. 1: all chunks are whole.
std::int64_t chunks_apart(const View& view) {
  const Schedule& schedule = view.pipeline->schedule;
  ESPALIER_CHECK(schedule.virtual_stages >= 1 && view.microbatches >= 1);
  if (schedule.kind != ScheduleKind::interleaved || view.microbatches > view.stages) return 1;
  return schedule.virtual_stages;
}

/// Returns the bytes that a rank keeps. `part`: its part of what ZeRO shards, relative to an equal one. `chunks`:
/// chunks_apart.
Kept kept_bytes(const StatePolicy& bytes, const Strategy& s, const StageElements& e, double part, std::int64_t chunks) {
  const auto held = [&](bool sharded) {
    return sharded ? ceil_div(e.dense, s.shard) + ceil_div(e.expert, expert_shard(s)) : e.dense + e.expert;
  };
  const auto of = [&](std::int64_t each, bool sharded, std::int64_t more = 0) {
    const std::int64_t all = each * held(sharded) + more;
    return sharded && part != 1.0 ? static_cast<std::int64_t>(std::ceil(static_cast<double>(all) * part)) : all;
  };
  const bool spread = s.shards_parameters();
  const std::int64_t frozen =
      spread ? ceil_div(e.frozen_dense, s.shard) + ceil_div(e.frozen_expert, expert_shard(s)) : e.frozen_dense + e.frozen_expert;
  Kept kept;
  const bool freed = bytes.frees_reduced && s.zero == ZeroStage::optimizer && chunks > 1;
  const std::int64_t gradients =
      freed ? bytes.gradient * (held(true) + ceil_div(e.dense + e.expert, chunks)) : of(bytes.gradient, s.shards_gradients());
  const bool of_the_update = bytes.autograd >= 4;
  (offloads_parameters(s.offload) ? kept.host : kept.device) += of(bytes.parameter, spread, frozen) + gradients;
  (offloads_parameters(s.offload) || (of_the_update && offloads_optimizer(s.offload)) ? kept.host : kept.device) +=
      of(bytes.autograd, of_the_update && s.shards_optimizer());
  const bool updates_there = offloads_optimizer(s.offload);
  (updates_there ? kept.host : kept.device) += of(bytes.master + bytes.optimizer, s.shards_optimizer());
  if (updates_there) kept.host += of(bytes.host_gradient, s.shards_optimizer());
  return kept;
}

std::vector<Kept> kept_per_stage(const View& view) {
  const StatePolicy bytes = bytes_of(view);
  std::vector<Kept> result;
  for (const StageHeld& stage : held_per_stage(view)) {
    Kept sum;
    const double part = view.states_of_stage.empty() ? 1.0 : view.states_of_stage[result.size()];
    for (const HeldByStrategy& h : stage) {
      const Kept one = kept_bytes(bytes, h.strategy, h.elements, part, chunks_apart(view));
      sum.device += one.device;
      sum.host += one.host;
    }
    result.push_back(sum);
  }
  return result;
}

}  // namespace

StageElements table_share(const View& view) {
  const LayerKind& embedding = view.model->layer(0);
  for (const Operator& op : embedding.operators) {
    if (op.kind != OperatorKind::embedding || op.split != TpSplit::vocab) continue;
    const std::int64_t elements = vocabulary_share(op.parameters, view);
    if (op.frozen) return {0, 0, bytes_kept(elements, frozen_element_bytes(view, embedding, op)), 0};
    return {elements, 0, 0, 0};
  }
  return {};
}

std::int64_t table_elements(const View& view) { return table_share(view).dense; }

std::int32_t table_user(const View& view, std::size_t chunk) {
  if (view.model->vocabulary == 0) return -1;
  for (std::int32_t i = view.chunks[chunk].first(); i <= view.chunks[chunk].last(); ++i) {
    const LayerKind& kind = view.model->layer(static_cast<std::size_t>(i));
    if (i == 0 || (kind.role == LayerRole::head && view.model->tied_embeddings)) return i;
    if (std::any_of(kind.operators.begin(), kind.operators.end(), looks_up_shared_table)) return i;
  }
  return -1;
}

bool uses_table(const View& view, std::size_t chunk) { return table_user(view, chunk) >= 0; }

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
    for (const HeldByStrategy& h : stage) sum += h.elements;
    stages.push_back(sum);
  }
  return stages;
}

std::vector<std::int64_t> static_bytes_per_stage(const View& view) {
  std::vector<std::int64_t> result;
  for (const Kept& kept : kept_per_stage(view)) result.push_back(kept.device);
  return result;
}

std::vector<std::int64_t> host_bytes_per_stage(const View& view) {
  std::vector<std::int64_t> result;
  for (const Kept& kept : kept_per_stage(view)) result.push_back(kept.host);
  return result;
}

std::vector<std::int64_t> gradient_bytes_per_stage(const View& view) {
  const StatePolicy bytes = bytes_of(view);
  std::vector<std::int64_t> result;
  for (const StageHeld& stage : held_per_stage(view)) {
    std::int64_t sum = 0;
    for (const HeldByStrategy& h : stage) {
      sum += h.strategy.data_ranks() > 1 ? h.elements.dense : 0;
      sum += h.strategy.expert_data_ranks() > 1 ? h.elements.expert : 0;
    }
    result.push_back(bytes.reduce * sum);
  }
  return result;
}

}  // namespace espalier::check
