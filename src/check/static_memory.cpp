// SPDX-License-Identifier: Apache-2.0
#include "check/static_memory.h"

#include <numeric>

#include "check/arithmetic.h"

namespace espalier::check {
namespace {

/// Elements of a tensor of `elements` over the vocabulary, after padding and the split.
std::int64_t vocabulary_share(std::int64_t elements, const View& view) {
  const std::int64_t vocabulary = view.model->vocabulary;
  const std::int64_t unit = view.engine.vocabulary_multiple;
  const std::int64_t rows = ceil_div(vocabulary, unit * view.strategy.weight_tp()) * unit;
  return elements / vocabulary * rows;
}

void add_operator(const View& view, const Operator& op, StageElements& sum) {
  const Strategy& s = view.strategy;
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

std::vector<StageElements> elements_per_stage(const View& view) {
  std::vector<StageElements> stages(static_cast<std::size_t>(view.stages));
  for (std::size_t c = 0; c < view.chunks.size(); ++c) {
    StageElements& sum = stages[static_cast<std::size_t>(view.stage_of[c])];
    for (std::int32_t i = view.chunks[c].first; i <= view.chunks[c].last; ++i) {
      for (const Operator& op : view.model->layer(static_cast<std::size_t>(i)).operators) add_operator(view, op, sum);
    }
  }
  const std::int32_t first = view.stage_of.front(), last = view.stage_of.back();
  if (view.model->tied_embeddings && first != last) {
    for (const Operator& op : view.model->layer(0).operators) {
      if (op.kind != OperatorKind::embedding || op.split != TpSplit::vocab) continue;
      stages[static_cast<std::size_t>(last)].dense += vocabulary_share(op.parameters, view);
    }
  }
  return stages;
}

std::vector<std::int64_t> static_bytes_per_stage(const View& view) {
  const StatePolicy bytes = bytes_of(view);
  const Strategy& s = view.strategy;
  const std::int64_t expert_shard = std::gcd(std::int64_t{s.shard}, s.expert_data_ranks());
  std::vector<std::int64_t> result;
  for (const StageElements& e : elements_per_stage(view)) {
    const auto held = [&](std::int32_t from_stage) {
      return s.zero >= from_stage ? ceil_div(e.dense, s.shard) + ceil_div(e.expert, expert_shard) : e.dense + e.expert;
    };
    result.push_back(bytes.parameter * held(3) + bytes.gradient * held(2) + (bytes.master + bytes.optimizer) * held(1));
  }
  return result;
}

std::vector<std::int64_t> gradient_bytes_per_stage(const View& view) {
  const StatePolicy bytes = bytes_of(view);
  std::vector<std::int64_t> result;
  for (const StageElements& e : elements_per_stage(view)) {
    const std::int64_t dense = view.strategy.data_ranks() > 1 ? e.dense : 0;
    const std::int64_t expert = view.strategy.expert_data_ranks() > 1 ? e.expert : 0;
    result.push_back(bytes.reduce * (dense + expert));
  }
  return result;
}

}  // namespace espalier::check
