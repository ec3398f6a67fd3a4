// SPDX-License-Identifier: Apache-2.0
#include "cost/plan_timing.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "cost/chunk_sum.h"
#include "cost/collective.h"
#include "plan/lowering_facts.h"
#include "plan/shared_table.h"
#include "plan/split.h"

namespace espalier::cost {
namespace {

/// The copy of the token table that chunk i holds beside its layers.
void add_copy(const Assembly& x, const SplitTable& split, std::int32_t chunk, ChunkEdges edges, ChunkSum& sum) {
  const Model& model = *x.c.model;
  const std::int32_t user = table_layer(model, split.first(chunk), split.last(chunk));
  const LayerCost& cost = x.layers[static_cast<std::size_t>(model.layers[static_cast<std::size_t>(user)])];
  const std::int64_t elements = table_elements(model, *x.c.engine, x.s);
  sum.add_table(elements, table_zero_time(x, cost, elements, edges), user == split.first(chunk));
}

/// A chunk of one strategy; full recomputation for its first blocks.
ChunkSum fill_chunk(const Assembly& x, const SplitTable& split, std::int32_t chunk, ChunkTiming& t) {
  ChunkSum sum(t);
  TensorSync sync;
  for (const SplitTable::Run& run : split.runs(chunk))
    sync += x.layers[static_cast<std::size_t>(run.kind)].tensor_sync.times(run.layers);
  each_run(*x.c.model, split.runs(chunk), x.s.recompute,
           [&](std::int32_t kind, std::int64_t n, RecomputeKind how) { sum.add(x, kind, n, how); });
  sum.finish(x, split.runs(chunk).front().kind);
  t.gradient_sync_ns += ns(tensor_sync_s(x, sync));
  return sum;
}

void fill_data_communication(const Assembly& x, const Lowering& lowering, double pieces, ChunkTiming& t) {
  const double dense = static_cast<double>(t.dense_parameters), expert = static_cast<double>(t.expert_parameters);
  if (lowering.reduce_gradients) t.grad_reduce_ns = ns(reduce_piece_s(x, dense, expert, pieces));
  if (lowering.gather_parameters) t.param_gather_ns = ns(gather_piece_s(x, dense, expert, pieces));
}

/// The same within a uniform plan, where an interleaved round repeats the one before.
void fill_messages(const Assembly& x, const SplitTable& split, const Schedule& schedule, std::int32_t i, PlanTiming& out) {
  if (i == 0) return;
  ChunkTiming& t = out.chunks[static_cast<std::size_t>(i)];
  const std::int32_t kind = x.c.model->layers[static_cast<std::size_t>(split.first(i) - 1)];
  if (schedule.kind == ScheduleKind::interleaved && i > schedule.stages) {
    const ChunkTiming& earlier = out.chunks[static_cast<std::size_t>(i - schedule.stages)];
    if (earlier.boundary_bytes == x.layers[static_cast<std::size_t>(kind)].boundary_bytes) {
      t.boundary_bytes = earlier.boundary_bytes;
      t.send_forward_ns = t.send_backward_ns = earlier.send_forward_ns;
      return;
    }
  }
  fill_message(x, kind, schedule, i, out);
}

std::int64_t largest_layer(const std::vector<LayerCost>& layers) {
  std::int64_t largest = 0;
  for (const LayerCost& l : layers) largest = std::max(largest, l.dense_parameters + l.expert_parameters);
  return largest;
}

/// Stages of equal elements have equal static bytes and updates.
bool same_elements(const StageTiming& a, const StageTiming& b) {
  return a.dense_parameters == b.dense_parameters && a.expert_parameters == b.expert_parameters;
}

/// `message` and `largest`: message_bytes and largest_layer, the same for all stages.
StaticMemory stage_memory(const CostContext& c, const StatePolicy& states, const Strategy& s, const StageTiming& stage,
                          std::int64_t message, std::int64_t largest) {
  StaticMemory memory = state_memory({stage.dense_parameters, stage.expert_parameters}, states, s);
  memory.framework = c.workspace_bytes;
  memory.communication_buffers = 2 * message;
  if (s.zero >= 3) memory.communication_buffers += 2 * largest * states.gather;  // the layer in use and the one being gathered
  if (s.zero >= 2) memory.communication_buffers += largest * states.reduce;      // the full gradient before its reduce-scatter
  return memory;
}

}  // namespace

SplitTable::SplitTable(const Model& model, const std::vector<std::int32_t>& first)
    : first_(first), layers_(static_cast<std::int32_t>(model.layers.size())) {
  ESPALIER_CHECK(model.kinds.size() <= kMaxKinds && !first.empty() && first.front() == 0);
  for (std::int32_t c = 0; c < chunks(); ++c) {
    runs_.emplace_back();
    for (std::int32_t i = this->first(c); i <= last(c); ++i) {
      const std::int32_t kind = model.layers[static_cast<std::size_t>(i)];
      if (runs_.back().empty() || runs_.back().back().kind != kind) runs_.back().push_back({kind, 0});
      ++runs_.back().back().layers;
    }
    layer_counts_.push_back(last(c) - this->first(c) + 1);
    std::int32_t twin = 0;
    const auto same = [&](std::int32_t other) {
      return layer_counts_[static_cast<std::size_t>(other)] == layer_counts_.back() &&
             std::equal(model.layers.begin() + this->first(c), model.layers.begin() + last(c) + 1,
                        model.layers.begin() + this->first(other));
    };
    while (twin < c && (twins_[static_cast<std::size_t>(twin)] != twin || !same(twin))) ++twin;
    twins_.push_back(twin);
  }
}

SplitTable split_of(const Model& model, const Plan& plan) {
  std::vector<std::int32_t> first(static_cast<std::size_t>(plan.schedule.stages) * plan.schedule.virtual_stages);
  for (std::int32_t i = 0; i < plan.schedule.stages; ++i)
    for (std::int32_t k = 0; k < plan.schedule.virtual_stages; ++k)
      first[static_cast<std::size_t>(pipeline_chunk(plan.schedule, i, k))] =
          plan.stages[static_cast<std::size_t>(i)].chunks[static_cast<std::size_t>(k)].first();
  return {model, first};
}

SplitTable split_for(const Model& model, const Training& training, const EngineModel& engine, std::int32_t chunks) {
  return {model, split_layers(model, training.sequence, engine.split, chunks)};
}

void lowering_for(const Model& model, const Strategy& s, const Schedule& schedule, const SplitTable& split, Lowering& out) {
  lowering_facts(model, s, schedule, split.layer_counts(), out);
}

PhaseTime part_of(const PhaseTime& whole, int piece, int pieces) {
  const auto cut = [&](std::int64_t v) { return v * (piece + 1) / pieces - v * piece / pieces; };
  return {cut(whole.compute_ns), cut(whole.exposed_ns), cut(whole.other_ns), cut(whole.hidden_ns)};
}

void plan_timing(const CostContext& c, const Strategy& s, const Schedule& schedule, const SplitTable& split,
                 const std::vector<LayerCost>& layers, const Lowering& lowering, PlanTiming& out, ChunkEdges edges) {
  const Assembly x = assembly_of(c, s, schedule.stages, layers, edges);
  const std::int32_t p = schedule.stages, chunks = split.chunks();
  out.chunks.resize(static_cast<std::size_t>(chunks));
  out.stages.assign(static_cast<std::size_t>(p), StageTiming{});
  for (std::int32_t i = 0; i < chunks; ++i) {
    ChunkTiming& t = out.chunks[static_cast<std::size_t>(i)];
    auto& held = out.stages[static_cast<std::size_t>(place_of_chunk(schedule, i).stage)];
    const bool copy = holds_copy(lowering.table_chunks, i);
    if (const std::int32_t twin = split.twin(i);
        twin != i && !copy && lowering.pieces[static_cast<std::size_t>(i)] == lowering.pieces[static_cast<std::size_t>(twin)]) {
      t = out.chunks[static_cast<std::size_t>(twin)];
    } else {
      ChunkSum sum = fill_chunk(x, split, i, t);
      if (copy) add_copy(x, split, i, edges, sum);
      fill_data_communication(x, lowering, lowering.pieces[static_cast<std::size_t>(i)], t);
    }
    held.dense_parameters += t.dense_parameters, held.expert_parameters += t.expert_parameters;
    fill_messages(x, split, schedule, i, out);
  }
  const std::int64_t message = message_bytes(out), largest = largest_layer(layers), exchange = ns(table_exchange_s(x, lowering));
  for (std::int32_t i = 0; i < p; ++i) {
    StageTiming& stage = out.stages[static_cast<std::size_t>(i)];
    if (i > 0 && i < p - 1 && same_elements(stage, out.stages[static_cast<std::size_t>(i - 1)])) {
      stage = out.stages[static_cast<std::size_t>(i - 1)];
      continue;
    }
    const ParameterElements e{stage.dense_parameters, stage.expert_parameters};
    stage.reduced_elements = reduced_elements(e, s);
    stage.memory = stage_memory(c, x.states, s, stage, message, largest);
    if (i == p - 1) stage.memory.framework += deferred_bytes(c, schedule, layers);
    fill_optimizer(c, update_bytes(c, x.states, e, s), stage);
    stage.tied_reduce_ns = exchange;
  }
  add_gradient_sync(lowering, out);
  expose_reduction(c, table_elements(*c.model, *c.engine, s), lowering, out);
  out.compute_slowdown = x.groups.slowdown.compute;
  out.communication_slowdown = x.groups.slowdown.communication;
  out.allocator_reserve = c.engine->allocator_reserve;
}

void static_bytes(const CostContext& c, const Strategy& s, const std::vector<LayerCost>& layers, const PlanTiming& timing,
                  std::vector<std::int64_t>& out) {
  const StatePolicy states = states_of(*c.engine, c.training);
  const std::int64_t message = message_bytes(timing), largest = largest_layer(layers);
  out.clear();
  for (const StageTiming& stage : timing.stages) {
    StaticMemory memory = stage_memory(c, states, s, stage, message, largest);
    memory.framework = stage.memory.framework;  // does not depend on how states are sharded
    out.push_back(memory.total());
  }
}

}  // namespace espalier::cost
