// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "cost/offload.h"
#include "cost/price_parts.h"
#include "cost/queued_outputs.h"
#include "plan/engine.h"

namespace espalier::cost {
namespace {

/// Finds the largest layers of the plan. Layers count for gathers and reductions if their states are sharded as far.
LargestLayers largest_layers(const Pricing& p, const StatePolicy& states) {
  LargestLayers most;
  const auto table = [&](std::size_t kind) { return p.c.workload.model->kinds[kind].role != LayerRole::block; };
  if (p.only != nullptr) {
    for (std::size_t k = 0; k < p.only->layers.size(); ++k) most.take(p.only->layers[k].elements(), states, table(k));
    return most;
  }
  for (const auto& chunk : p.chunks)
    for (const RangeCost& range : chunk) {
      const Strategy& s = *range.strategy;
      const bool fetched = offloads_parameters(s.offload);
      for (std::int32_t i = range.first; i <= range.last; ++i) {
        const auto kind = static_cast<std::size_t>(p.kind_of(i));
        LargestLayers one;
        one.take((*range.layers)[kind].elements(), states, table(kind));
        if (s.shards_parameters() || fetched) most.gathered = std::max(most.gathered, one.gathered);
        if (s.shards_gradients() || fetched) most.scattered = std::max(most.scattered, one.scattered);
        most.tensor = std::max(most.tensor, one.tensor);
      }
    }
  return most;
}

/// Returns the bytes of the buffer that layers of the stage leave behind: one for all of them.
std::int64_t largest_buffer(Pricing& p, std::int32_t stage) {
  std::int64_t most = 0;
  if (!p.c.engine->memory.keeps_score_buffer) return most;
  for (std::size_t c = 0; c < p.chunks.size(); ++c) {
    if (p.stage_of(static_cast<std::int32_t>(c)) != stage) continue;
    for (const RangeCost& range : p.chunks[c])
      for (std::int32_t i = range.first; i <= range.last; ++i)
        most = std::max(most, (*range.layers)[static_cast<std::size_t>(p.kind_of(i))].buffer_bytes);
  }
  return most;
}

/// Returns the bytes of outputs that wait for their collectives while the host runs ahead.
std::int64_t queued_outputs(Pricing& p, std::int32_t stage) {
  const std::int32_t most = p.c.engine->eager.queued_blocks;
  if (most == 0) return 0;
  std::int64_t bytes = 0, blocks = 0;
  for (std::size_t c = 0; c < p.chunks.size(); ++c) {
    if (p.stage_of(static_cast<std::int32_t>(c)) != stage) continue;
    for (const RangeCost& range : p.chunks[c])
      for (std::int32_t i = range.first; i <= range.last; ++i) {
        const std::int64_t one = (*range.layers)[static_cast<std::size_t>(p.kind_of(i))].scattered_bytes;
        bytes += one;
        blocks += one > 0 ? 1 : 0;
      }
  }
  return queued_bytes(bytes, blocks, queued_passes(p.structure.schedule, stage), most);
}

std::int64_t part_of(std::int64_t bytes, double share) {
  return share == 1.0 ? bytes : static_cast<std::int64_t>(std::ceil(static_cast<double>(bytes) * share));
}

/// Returns whether a stage costs as much as the one before. Stages between the first and the last do if they hold as
/// much.
bool like_before(Pricing& p, std::int32_t i) {
  if (i == 0 || i == p.structure.schedule.stages - 1) return false;
  if (p.c.engine->memory.keeps_score_buffer) return false;  // layers that hold the same may reach differently far
  if (p.c.engine->eager.queued_blocks > 0) return false;    // the host runs further ahead on an earlier stage
  const Shares &a = p.held(i), &b = p.held(i - 1);
  if (a.size() != 1 || b.size() != 1 || a.front().under != b.front().under) return false;
  if (a.front().under->s.offload != Offload::none) return false;  // its own backward pass decides what is hidden
  return a.front().elements == b.front().elements;
}

/// Returns the backward time of one micro-batch through all chunks of the stage.
std::int64_t backward_ns(Pricing& p, std::int32_t stage) {
  std::int64_t sum = 0;
  for (std::int32_t c = 0; c < p.structure.chunks(); ++c)
    if (p.stage_of(c) == stage) sum += p.priced(c).total.backward.duration_ns();
  return sum;
}

/// Returns the activations of a rank in host memory at the fullest moment of the stage.
std::int64_t hosted_bytes(Pricing& p, std::int32_t stage) {
  std::vector<PassBytes> chunks;
  std::int64_t all = 0;
  for (std::int32_t k = 0; k < p.structure.schedule.virtual_stages; ++k) {
    const std::int64_t bytes = p.priced(pipeline_chunk(p.structure.schedule, stage, k)).total.hosted;
    chunks.push_back({bytes, bytes, 0, 0});
    all += bytes;
  }
  return all == 0 ? 0 : p.scratch.passes.peak_bytes(p.structure.schedule, stage, chunks);
}

}  // namespace

void price_stage(Pricing& p, std::int32_t i) {
  if (like_before(p, i)) {
    p.out.stages[StageId(i)] = p.out.stages[StageId(i - 1)];
    p.optimizer(i) = p.optimizer(i - 1);
    return;
  }
  StageCost& stage = p.out.stages[StageId(i)];
  const StatePolicy states = states_of(*p.c.engine, p.c.workload.training);
  double bytes = 0;
  HostUpdate host;
  ZeroBuffers buffers;
  bool copies = false;
  if (!p.largest) p.largest = largest_layers(p, states);
  for (const Share& s : p.held(i)) {
    stage.dense_parameters += s.elements.dense;
    stage.expert_parameters += s.elements.expert;
    stage.frozen_dense_bytes += s.elements.frozen_dense;
    stage.frozen_expert_bytes += s.elements.frozen_expert;
    const StaticMemory memory = state_memory(s.elements, states, s.under->s, gradient_parts(p.structure.schedule));
    const ZeroStage zero = s.under->s.zero;
    const double share = p.on_stage(i).state_share;
    stage.memory.parameters += part_of(memory.parameters, shards_parameters(zero) ? share : 1.0);
    stage.memory.gradients += part_of(memory.gradients, shards_gradients(zero) ? share : 1.0);
    stage.memory.optimizer += part_of(memory.optimizer, shards_optimizer(zero) ? share : 1.0);
    stage.memory.host += part_of(memory.host, shards_optimizer(zero) ? share : 1.0);
    stage.reduced_elements += reduced_elements(s.elements, s.under->s);
    bytes += update_bytes(*p.c.engine, states, s.elements, s.under->s) * (shards_optimizer(zero) ? share : 1.0);
    host += host_update(p.on_stage(i).device.host, states, s.elements, s.under->s).times(shards_optimizer(zero) ? share : 1.0);
    buffers += zero_buffers(p.c.engine->memory.zero, states, s.under->s, s.elements, *p.largest);
    copies |= copies_in_passes(s.under->s.offload);
  }
  if (copies) stage.memory.host += hosted_bytes(p, i);
  stage.memory.framework = p.on_stage(i).device.workspace_bytes + largest_buffer(p, i);
  stage.memory.communication_buffers = 2 * p.largest_message + queued_outputs(p, i) + buffers.total();
  if (i == p.structure.schedule.stages - 1)
    stage.memory.framework +=
        deferred_bytes(*p.c.workload.model, *p.c.engine, p.structure.schedule, *p.chunks.back().back().layers);
  p.optimizer(i) = optimizer_time(p.on_stage(i).device, *p.c.engine, bytes, stage.step_host);
  add_host_update(host, *p.c.engine, backward_ns(p, i), p.optimizer(i), stage.step_host);
  p.out.message = Bytes(p.largest_message);
}

}  // namespace espalier::cost
