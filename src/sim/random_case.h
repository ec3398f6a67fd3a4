// SPDX-License-Identifier: Apache-2.0
// Generates random plans and timings for property tests: every schedule, up to 4 stages and 12 devices a stage,
// random collectives, buckets, overlap, slow-down, memory.
#pragma once

#include <rapidcheck.h>

#include <cstdint>

#include "sim/testing.h"

namespace espalier::sim::testing {

struct Case {
  Plan plan;
  Model model;
  cost::test::ByChunk timing;
};

inline std::int64_t up_to(std::int64_t limit) { return *rc::gen::inRange<std::int64_t>(0, limit + 1); }
inline cost::PhaseTime any_phase() { return {up_to(1000), up_to(100), up_to(20), up_to(100)}; }

inline Schedule any_schedule() {
  Schedule s;
  s.kind = *rc::gen::elementOf(kScheduleKinds);
  s.stages = *rc::gen::element(1, 2, 3, 4);
  s.virtual_stages = s.kind == ScheduleKind::zb_v ? 2 : s.kind == ScheduleKind::interleaved ? *rc::gen::inRange(1, 4) : 1;
  s.microbatches = *rc::gen::inRange(1, 10);
  return s;
}

inline Strategy any_strategy() {
  Strategy s;
  s.tp = *rc::gen::element(1, 2);
  s.cp = *rc::gen::element(1, 2);
  s.dp = *rc::gen::element(1, 2, 3);
  s.sp = *rc::gen::element(SequenceParallel::none, SequenceParallel::ulysses);
  s.zero = ZeroStage{*rc::gen::inRange(0, 4)};
  s.shard = s.shards_optimizer() ? static_cast<std::int32_t>(s.data_ranks()) : 1;
  s.overlap = {*rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>(), false};
  return s;
}

/// Returns a pipeline with the fields that structure reads: devices stage after stage, a few layers a chunk.
inline Pipeline any_pipeline() {
  Pipeline pipeline;
  pipeline.schedule = any_schedule();
  const Strategy strategy = any_strategy();
  const std::int64_t devices = strategy.devices();
  for (std::int32_t i = 0; i < pipeline.schedule.stages; ++i) {
    Stage stage;
    stage.devices = {{i * devices, devices, 1}};
    for (std::int32_t k = 0; k < pipeline.schedule.virtual_stages; ++k) {
      stage.chunks.push_back({{{0, *rc::gen::inRange(0, 5), strategy}}});  // only the number of layers matters here
    }
    pipeline.stages.push_back(stage);
  }
  return pipeline;
}

/// Returns an embedding whose table is trained, so that a tied table is reduced.
inline LayerKind table_layer_kind() {
  Operator table;
  table.kind = OperatorKind::embedding;
  table.split = TpSplit::vocab;
  LayerKind kind;
  kind.operators = {table};
  return kind;
}

inline Case any_case() {
  Case c;
  c.plan.pipelines = {any_pipeline()};
  c.model.tied_embeddings = *rc::gen::arbitrary<bool>();
  c.model.vocabulary = 1;
  c.model.kinds.push_back(table_layer_kind());
  c.model.layers = {0};
  const Schedule& s = c.plan.pipelines[0].schedule;
  c.timing = uniform(s, 0, 0, 0);
  for (cost::test::ChunkRow& chunk : c.timing.chunks) {
    chunk.forward = any_phase();
    chunk.backward = any_phase();
    chunk.backward_input = any_phase();
    chunk.backward_weight = any_phase();
    chunk.send_forward_ns = up_to(50);
    chunk.send_backward_ns = up_to(50);
    chunk.grad_reduce_ns = up_to(400);
    chunk.param_gather_ns = up_to(400);
    chunk.saved_after_input_bytes = up_to(500);
    chunk.saved_bytes = chunk.saved_after_input_bytes + up_to(500);
    chunk.forward_transient_bytes = up_to(50);
    chunk.backward_transient_bytes = up_to(50);
  }
  for (cost::test::StageRow& stage : c.timing.stages) {
    stage.optimizer_ns = up_to(100);
    stage.memory.parameters = up_to(5000);
    stage.slowdown = {1.0 + static_cast<double>(up_to(300)) / 100.0, 1.0 + static_cast<double>(up_to(300)) / 100.0};
  }
  c.timing.tied_reduce_ns = up_to(100);
  if (*rc::gen::arbitrary<bool>()) c.timing.slow_down({});
  c.timing.allocator_reserve = static_cast<double>(up_to(100)) / 1000.0;
  return c;
}

}  // namespace espalier::sim::testing
