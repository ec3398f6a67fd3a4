// SPDX-License-Identifier: Apache-2.0
// Generates timings and lowerings from random numbers, unrelated to any model. A bound must hold for them, since it
// may assume only the dependencies of a program. The contract of Costs is kept: no message between chunks of one
// stage, tied reduction only where the ends of the pipeline are on two stages.
#pragma once

#include <algorithm>
#include <string>

#include "cost/by_chunk.h"
#include "plan/program.h"
#include "random.h"

namespace espalier::property {

struct TimedProgram {
  ProgramStructure structure;
  cost::test::ByChunk timing;
};

inline Schedule any_schedule(Random& random) {
  Schedule s;
  s.kind = random.of<ScheduleKind>({kScheduleKinds.begin(), kScheduleKinds.end()});
  s.stages = static_cast<std::int32_t>(random.between(s.kind == ScheduleKind::one_f_one_b ? 1 : 2, 8));
  if (s.kind == ScheduleKind::interleaved) s.virtual_stages = static_cast<std::int32_t>(random.between(2, 4));
  if (s.kind == ScheduleKind::zb_v) s.virtual_stages = 2;
  s.microbatches = static_cast<std::int32_t>(random.between(1, 16));
  if (s.kind == ScheduleKind::interleaved)
    s.microbatches = s.stages * static_cast<std::int32_t>(random.between(1, std::max(1, 16 / s.stages)));
  return s;
}

/// Draws a scale for each sort of duration of a program, 0 included, so that every sort dominates some programs.
inline std::int64_t any_scale(Random& random) { return random.of<std::int64_t>({0, 3, 30, 300, 3000, 30000}); }

inline cost::PhaseTime any_phase(Random& random, std::int64_t scale) {
  return {random.between(0, scale), random.one_in(2) ? random.between(0, scale / 4) : 0,
          random.one_in(2) ? random.between(0, scale / 8) : 0, random.between(0, scale)};
}

inline void fill_chunks(Random& random, const ProgramStructure& low, cost::test::ByChunk& timing) {
  const Schedule& s = low.schedule;
  const std::int64_t forward = any_scale(random), backward = any_scale(random), weight = any_scale(random),
                     message = any_scale(random);
  const std::int64_t reduce = any_scale(random), gather = any_scale(random), bytes = any_scale(random),
                     transient = any_scale(random);
  const bool equal = random.one_in(3);  // equal chunks: bounds are tight there
  for (std::int32_t c = 0; c < s.chunks(); ++c) {
    cost::test::ChunkRow& t = timing.chunks[static_cast<std::size_t>(c)];
    if (equal && c > 0) {
      t = timing.chunks[0];
    } else {
      t.forward = any_phase(random, forward);
      t.backward = any_phase(random, backward);
      t.backward_input = any_phase(random, backward);
      t.backward_weight = any_phase(random, weight);
      t.grad_reduce_ns = random.between(0, reduce);
      t.param_gather_ns = random.between(0, gather);
      t.saved_bytes = random.between(0, bytes);
      t.saved_after_input_bytes = random.one_in(2) ? t.saved_bytes : random.between(0, t.saved_bytes);
      t.forward_transient_bytes = random.between(0, transient);
      t.backward_transient_bytes = random.between(0, transient);
    }
    const bool moves = c > 0 && place_of_chunk(s, c).stage != place_of_chunk(s, c - 1).stage;
    t.send_forward_ns = moves ? random.between(0, message) : 0;
    t.send_backward_ns = moves ? random.between(0, message) : 0;
  }
}

inline TimedProgram any_program(Random& random) {
  TimedProgram x;
  ProgramStructure& low = x.structure;
  low.schedule = any_schedule(random);
  const Schedule& s = low.schedule;
  low.reduce_gradients = random.one_in(2);
  low.overlap_reduce = low.reduce_gradients && random.one_in(2);
  low.gather_parameters = random.one_in(2);
  low.overlap_gather = low.gather_parameters && random.one_in(2);
  low.overlap_p2p = random.one_in(2);
  if (s.stages > 1 && s.kind != ScheduleKind::zb_v && random.one_in(3)) low.table_chunks = {ChunkId(0), ChunkId(s.chunks() - 1)};
  const bool cut = low.overlap_reduce || low.overlap_gather;
  for (std::int32_t c = 0; c < s.chunks(); ++c)
    low.buckets.add(static_cast<std::uint8_t>(cut ? random.between(1, random.one_in(4) ? kMaxBuckets : 4) : 1));
  cost::test::ByChunk& timing = x.timing;
  timing = cost::test::empty_rows(s);
  fill_chunks(random, low, timing);
  const std::int64_t optimizer = any_scale(random), tied = any_scale(random), fixed = any_scale(random);
  for (cost::test::StageRow& stage : timing.stages) {
    stage.optimizer_ns = random.between(0, optimizer);
    stage.memory.parameters = random.between(0, fixed);
  }
  timing.tied_reduce_ns = !low.table_chunks.empty() ? random.between(0, tied) : 0;
  if (random.one_in(2)) {
    const auto factor = [&] { return 1.0 + static_cast<double>(random.below(200)) / 100.0; };
    const double compute = factor(), communication = factor();
    timing.slow_down({communication, compute});
  }
  timing.allocator_reserve = static_cast<double>(random.below(100)) / 1000.0;
  return x;
}

inline std::string describe(const TimedProgram& x) {
  const Schedule& s = x.structure.schedule;
  std::string out = std::string(to_string(s.kind)) + " p" + std::to_string(s.stages) + " v" + std::to_string(s.virtual_stages) +
                    " m" + std::to_string(s.microbatches) + (x.structure.reduce_gradients ? " reduce" : "") +
                    (x.structure.overlap_reduce ? "(beside)" : "") + (x.structure.gather_parameters ? " gather" : "") +
                    (x.structure.overlap_gather ? "(beside)" : "") + (x.structure.overlap_p2p ? " p2p" : "") +
                    (!x.structure.table_chunks.empty() ? " tied" : "") + "\n";
  for (const cost::test::StageRow& stage : x.timing.stages)
    out += "  stage kw " + std::to_string(stage.slowdown.compute) + " kc " + std::to_string(stage.slowdown.communication) + "\n";
  for (std::size_t c = 0; c < x.timing.chunks.size(); ++c) {
    const cost::test::ChunkRow& t = x.timing.chunks[c];
    out += "  chunk " + std::to_string(c) + ": F " + std::to_string(t.forward.duration_ns()) + " B " +
           std::to_string(t.backward.duration_ns()) + " I " + std::to_string(t.backward_input.duration_ns()) + " W " +
           std::to_string(t.backward_weight.duration_ns()) + " down " + std::to_string(t.send_forward_ns) + " up " +
           std::to_string(t.send_backward_ns) + " reduce " + std::to_string(t.grad_reduce_ns) + " gather " +
           std::to_string(t.param_gather_ns) + " buckets " +
           std::to_string(x.structure.buckets[ChunkId(static_cast<std::int32_t>(c))]) + " saved " +
           std::to_string(t.saved_bytes) + " transients " + std::to_string(t.forward_transient_bytes) + " " +
           std::to_string(t.backward_transient_bytes) + "\n";
  }
  for (const cost::test::StageRow& t : x.timing.stages)
    out += "  stage: optimizer " + std::to_string(t.optimizer_ns) + " fixed " + std::to_string(t.memory.total()) + "\n";
  return out;
}

}  // namespace espalier::property
