// SPDX-License-Identifier: Apache-2.0
// Test helper: holds the columns of Costs as one row per chunk and one per stage, so that tests read and write them
// by name.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/costs.h"

namespace espalier::cost::test {

struct ChunkRow {
  cost::PhaseTime forward, backward, backward_input, backward_weight;
  std::int64_t send_forward_ns = 0, send_backward_ns = 0;  ///< the activation that enters, and its gradient
  std::int64_t grad_reduce_ns = 0, param_gather_ns = 0;    ///< one bucket each
  std::int64_t saved_bytes = 0, saved_after_input_bytes = 0, forward_transient_bytes = 0, backward_transient_bytes = 0;
  bool operator==(const ChunkRow&) const = default;
};

struct StageRow {
  std::int64_t optimizer_ns = 0;  ///< includes what the end of the step waits for
  std::int64_t optimizer_exposed_ns = 0, optimizer_launch_ns = 0;
  std::int64_t step_host_ns = 0, dense_parameters = 0, expert_parameters = 0, reduced_elements = 0;
  std::int64_t frozen_dense_bytes = 0, frozen_expert_bytes = 0;
  cost::StaticMemory memory;
  cost::MutualSlowdown slowdown;  ///< by the collectives of all its chunks
  bool operator==(const StageRow&) const = default;
};

struct ByChunk {
  std::vector<ChunkRow> chunks;
  std::vector<StageRow> stages;
  std::int64_t tied_reduce_ns = 0;
  double allocator_reserve = 0.0;
  std::int64_t message_bytes = 0;
  /// Gives all stages the same slow-down.
  void slow_down(const cost::MutualSlowdown& by) {
    for (StageRow& stage : stages) stage.slowdown = by;
  }
  bool operator==(const ByChunk&) const = default;
};

inline ByChunk empty_rows(const Schedule& s) {
  ByChunk out;
  out.chunks.resize(static_cast<std::size_t>(s.stages) * static_cast<std::size_t>(s.virtual_stages));
  out.stages.resize(static_cast<std::size_t>(s.stages));
  return out;
}

/// Returns costs with only what the structure has: the halves of a split backward, or else the whole.
inline cost::Costs costs_of(const ByChunk& rows, const ProgramStructure& s) {
  cost::Costs out;
  out.reset(s);
  for (std::int32_t c = 0; c < s.chunks(); ++c) {
    const ChunkRow& row = rows.chunks[static_cast<std::size_t>(c)];
    const std::int64_t saved = row.saved_bytes, after = row.saved_after_input_bytes;
    out.works[s.forward(ChunkId(c))] = {row.forward, {Bytes(saved), Bytes(row.forward_transient_bytes), Bytes()}};
    if (splits_backward(s.schedule.kind)) {
      out.works[s.backward(ChunkId(c))] = {row.backward_input,
                                           {Bytes(), Bytes(row.backward_transient_bytes), Bytes(after - saved)}};
      out.works[s.backward_weight(ChunkId(c))] = {row.backward_weight, {Bytes(), Bytes(), Bytes(-after)}};
    } else {
      out.works[s.backward(ChunkId(c))] = {row.backward, {Bytes(), Bytes(row.backward_transient_bytes), Bytes(-saved)}};
    }
    if (s.reduce_gradients) out.collectives[s.grad_reduce(ChunkId(c))] = Nanoseconds(row.grad_reduce_ns);
    if (s.gather_parameters) out.collectives[s.param_gather(ChunkId(c))] = Nanoseconds(row.param_gather_ns);
    if (c == 0) continue;
    out.transfers[s.transfer(ChunkId(c), false)] = Nanoseconds(row.send_forward_ns);
    out.transfers[s.transfer(ChunkId(c), true)] = Nanoseconds(row.send_backward_ns);
  }
  if (!s.table_chunks.empty()) out.collectives[s.tied_reduce()] = Nanoseconds(rows.tied_reduce_ns);
  for (std::int32_t i = 0; i < s.schedule.stages; ++i) {
    const StageRow& row = rows.stages[static_cast<std::size_t>(i)];
    cost::PhaseTime& optimizer = out.works[s.optimizer(StageId(i))].time;
    optimizer.exposed_ns = row.optimizer_exposed_ns;
    optimizer.other_ns = row.optimizer_launch_ns;
    optimizer.compute_ns = row.optimizer_ns - row.optimizer_exposed_ns - row.optimizer_launch_ns;
    out.stages[StageId(i)] = {row.memory,
                              row.dense_parameters,
                              row.expert_parameters,
                              row.frozen_dense_bytes,
                              row.frozen_expert_bytes,
                              row.reduced_elements,
                              Nanoseconds(row.step_host_ns)};
  }
  for (std::int32_t c = 0; c < s.chunks(); ++c) {
    const cost::MutualSlowdown& slowdown = rows.stages[static_cast<std::size_t>(place_of_chunk(s.schedule, c).stage)].slowdown;
    if (s.reduce_gradients) out.slowdowns[s.grad_reduce(ChunkId(c))] = slowdown;
    if (s.gather_parameters) out.slowdowns[s.param_gather(ChunkId(c))] = slowdown;
  }
  if (!s.table_chunks.empty())
    out.slowdowns[s.tied_reduce()] =
        rows.stages[static_cast<std::size_t>(place_of_chunk(s.schedule, s.table_chunks.front().value).stage)].slowdown;
  out.allocator_reserve = rows.allocator_reserve;
  out.message = Bytes(rows.message_bytes);
  return out;
}

inline ByChunk rows_of(const cost::Costs& costs, const ProgramStructure& s) {
  ByChunk out = empty_rows(s.schedule);
  for (std::int32_t c = 0; c < s.chunks(); ++c) {
    ChunkRow& row = out.chunks[static_cast<std::size_t>(c)];
    const cost::WorkCost &forward = costs.works[s.forward(ChunkId(c))], &backward = costs.works[s.backward(ChunkId(c))];
    row.forward = forward.time;
    row.saved_bytes = forward.memory.before.count();
    row.forward_transient_bytes = forward.memory.during.count();
    row.backward_transient_bytes = backward.memory.during.count();
    row.saved_after_input_bytes = row.saved_bytes;
    if (splits_backward(s.schedule.kind)) {
      row.backward_input = backward.time;
      row.backward_weight = costs.works[s.backward_weight(ChunkId(c))].time;
      row.saved_after_input_bytes = -costs.works[s.backward_weight(ChunkId(c))].memory.after.count();
    } else {
      row.backward = backward.time;
    }
    if (s.reduce_gradients) row.grad_reduce_ns = costs.collectives[s.grad_reduce(ChunkId(c))].count();
    if (s.gather_parameters) row.param_gather_ns = costs.collectives[s.param_gather(ChunkId(c))].count();
    if (c == 0) continue;
    row.send_forward_ns = costs.transfers[s.transfer(ChunkId(c), false)].count();
    row.send_backward_ns = costs.transfers[s.transfer(ChunkId(c), true)].count();
  }
  if (!s.table_chunks.empty()) out.tied_reduce_ns = costs.collectives[s.tied_reduce()].count();
  for (std::int32_t i = 0; i < s.schedule.stages; ++i) {
    const cost::StageCost& stage = costs.stages[StageId(i)];
    const cost::PhaseTime& optimizer = costs.works[s.optimizer(StageId(i))].time;
    // Stage i holds pipeline chunk i.
    const cost::MutualSlowdown slowdown = s.reduce_gradients    ? costs.slowdowns[s.grad_reduce(ChunkId(i))]
                                          : s.gather_parameters ? costs.slowdowns[s.param_gather(ChunkId(i))]
                                                                : cost::MutualSlowdown{};
    out.stages[static_cast<std::size_t>(i)] = {optimizer.duration_ns(),
                                               optimizer.exposed_ns,
                                               optimizer.other_ns,
                                               stage.step_host.count(),
                                               stage.dense_parameters,
                                               stage.expert_parameters,
                                               stage.reduced_elements,
                                               stage.frozen_dense_bytes,
                                               stage.frozen_expert_bytes,
                                               stage.memory,
                                               slowdown};
  }
  out.allocator_reserve = costs.allocator_reserve;
  out.message_bytes = costs.message.count();
  return out;
}

}  // namespace espalier::cost::test
