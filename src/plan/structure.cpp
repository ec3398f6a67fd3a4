// SPDX-License-Identifier: Apache-2.0
#include "plan/structure.h"

#include <algorithm>

#include "base/invariant.h"
#include "plan/shared_table.h"

namespace espalier {

bool has_experts(const Model& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(), [](const LayerKind& kind) {
    return std::any_of(kind.operators.begin(), kind.operators.end(),
                       [](const Operator& op) { return op.kind == OperatorKind::expert_linear; });
  });
}

bool reduces_gradients(bool experts, const Strategy& s) {
  const bool once = !s.shards_gradients();
  return (s.data_ranks() > 1 && (once || s.shard < s.data_ranks())) || (once && experts && s.expert_data_ranks() > 1);
}

void structure_of(const Model& model, const Strategy& s, const Schedule& schedule, const std::vector<std::int32_t>& layers,
                  ProgramStructure& out) {
  out.schedule = schedule;
  out.reduce_gradients = reduces_gradients(has_experts(model), s);
  out.overlap_reduce = out.reduce_gradients && s.overlap.grad_reduce;
  out.gather_parameters = gathers_parameters(s);
  out.overlap_gather = out.gather_parameters && s.overlap.param_gather;
  out.overlap_p2p = s.overlap.p2p;
  table_chunks(model, schedule, layers, out.table_chunks);
  if (!out.table_chunks.empty() && !trains_table(model)) out.table_chunks.clear();
  out.buckets.resize(layers.size());
  const bool cut = out.overlap_reduce || out.overlap_gather;
  for (std::size_t c = 0; c < layers.size(); ++c)
    out.buckets[ChunkId(static_cast<std::int32_t>(c))] =
        static_cast<std::uint8_t>(cut ? std::clamp(layers[c], 1, kMaxBuckets) : 1);
}

void structure_of(const Model& model, const std::vector<const Strategy*>& strategies, const Schedule& schedule,
                  const std::vector<std::int32_t>& layers, ProgramStructure& out) {
  structure_of(model, *strategies.front(), schedule, layers, out);
  bool reduce = out.reduce_gradients, gather = out.gather_parameters;
  Overlap on = strategies.front()->overlap;
  ProgramStructure one;
  for (const Strategy* s : strategies) {
    if (*s == *strategies.front()) continue;
    structure_of(model, *s, schedule, layers, one);
    reduce |= one.reduce_gradients;
    gather |= one.gather_parameters;
    on.grad_reduce |= s->overlap.grad_reduce;
    on.param_gather |= s->overlap.param_gather;
  }
  out.reduce_gradients = reduce;
  out.gather_parameters = gather;
  out.overlap_reduce = reduce && on.grad_reduce;
  out.overlap_gather = gather && on.param_gather;
  const bool cut = out.overlap_reduce || out.overlap_gather;
  for (std::size_t c = 0; c < layers.size(); ++c)
    out.buckets[ChunkId(static_cast<std::int32_t>(c))] =
        static_cast<std::uint8_t>(cut ? std::clamp(layers[c], 1, kMaxBuckets) : 1);
}

ProgramStructure structure_of(const Pipeline& pipeline, const Model& model) {
  const Schedule& schedule = pipeline.schedule;
  std::vector<std::int32_t> layers;
  for (std::int32_t c = 0; c < schedule.chunks(); ++c) {
    const ChunkPlace place = place_of_chunk(schedule, c);
    const Chunk& chunk =
        pipeline.stages[static_cast<std::size_t>(place.stage)].chunks[static_cast<std::size_t>(place.local_chunk)];
    layers.push_back(chunk.last() - chunk.first() + 1);
  }
  std::vector<const Strategy*> strategies;
  for (const Stage& stage : pipeline.stages)
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges) strategies.push_back(&range.strategy);
  ProgramStructure structure;
  structure_of(model, strategies, schedule, layers, structure);
  return structure;
}

WorkId ProgramStructure::work(InstructionKind pass, ChunkId chunk) const {
  switch (pass) {
    case InstructionKind::forward: return forward(chunk);
    case InstructionKind::backward:
    case InstructionKind::backward_input: return backward(chunk);
    case InstructionKind::backward_weight: return backward_weight(chunk);
    default: ESPALIER_CHECK(false);  // no pass over a chunk
  }
}

}  // namespace espalier
