// SPDX-License-Identifier: Apache-2.0
// Implements what all schedule families share: the place of a pipeline chunk, the family of an order, and the
// passes in flight.
#include "plan/schedule.h"

#include <algorithm>

#include "base/invariant.h"

namespace espalier {

std::vector<std::vector<LayerRange>> chunk_ranges(const Pipeline& pipeline) {
  std::vector<std::vector<LayerRange>> out(static_cast<std::size_t>(pipeline.schedule.chunks()));
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i)
    for (std::size_t k = 0; k < pipeline.stages[i].chunks.size(); ++k)
      out[static_cast<std::size_t>(pipeline_chunk(pipeline.schedule, static_cast<std::int32_t>(i),
                                                  static_cast<std::int32_t>(k)))] = pipeline.stages[i].chunks[k].ranges;
  return out;
}

std::int32_t pipeline_chunk(const Schedule& schedule, std::int32_t stage, std::int32_t local_chunk) {
  if (schedule.kind == ScheduleKind::zb_v && local_chunk == 1) return 2 * schedule.stages - 1 - stage;
  return local_chunk * schedule.stages + stage;
}

ChunkPlace place_of_chunk(const Schedule& schedule, std::int32_t pipeline_chunk) {
  const std::int32_t p = schedule.stages;
  if (schedule.kind == ScheduleKind::zb_v && pipeline_chunk >= p) return {2 * p - 1 - pipeline_chunk, 1};
  return {pipeline_chunk % p, pipeline_chunk / p};
}

std::int32_t max_in_flight(const Schedule& schedule, std::int32_t stage) {
  const std::int64_t p = schedule.stages, m = schedule.microbatches, v = schedule.virtual_stages;
  const auto at_most = [](std::int64_t passes, std::int64_t limit) { return static_cast<std::int32_t>(std::min(passes, limit)); };
  switch (schedule.kind) {
    case ScheduleKind::gpipe: return at_most(m, m);
    case ScheduleKind::one_f_one_b: return at_most(m, p - stage);
    case ScheduleKind::interleaved: {
      const std::int64_t late = m < p ? 0 : (v - 1) * (m % p);  // see schedule_interleaved.cpp
      return at_most(m * v, p * v + p - 2 * stage - 1 + late);
    }
    case ScheduleKind::zb_h1: return at_most(m, p);
    case ScheduleKind::zb_v: return at_most(2 * m, 2 * p);
    case ScheduleKind::zb_h2: return at_most(m, 2 * p - 1);
  }
  ESPALIER_CHECK(false);
}

std::int32_t max_whole(const Schedule& schedule, std::int32_t stage) {
  switch (schedule.kind) {
    case ScheduleKind::gpipe: return schedule.microbatches;
    case ScheduleKind::zb_h2: return std::min(schedule.microbatches, 2 * (schedule.stages - stage) - 1);
    default: return std::min(schedule.microbatches, schedule.stages - stage);
  }
}

std::vector<ChunkPass> compute_order(const Schedule& schedule, std::int32_t stage) {
  ESPALIER_CHECK(schedule.stages >= 1 && schedule.microbatches >= 1 && schedule.virtual_stages >= 1);
  ESPALIER_CHECK(stage >= 0 && stage < schedule.stages);
  switch (schedule.kind) {
    case ScheduleKind::gpipe: return gpipe_order(schedule, stage);
    case ScheduleKind::one_f_one_b: return one_f_one_b_order(schedule, stage);
    case ScheduleKind::interleaved: return interleaved_order(schedule, stage);
    case ScheduleKind::zb_h1: return zb_h1_order(schedule, stage);
    case ScheduleKind::zb_v: return zb_v_order(schedule, stage);
    case ScheduleKind::zb_h2: return zb_h2_order(schedule, stage);
  }
  ESPALIER_CHECK(false);
}

}  // namespace espalier
