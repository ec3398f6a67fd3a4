// SPDX-License-Identifier: Apache-2.0
// Implements what all schedule families share: the place of a pipeline chunk, the family of an order, and the
// passes in flight.
#include "plan/schedule.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/invariant.h"

namespace espalier {
namespace {

using Passes = std::int64_t (*)(const Schedule&, std::int64_t stage);

/// Holds what the families of schedules differ in.
struct ScheduleFamily {
  ScheduleKind kind;
  std::string_view name;
  bool turns_back;  ///< the second chunks of the stages follow each other from the last stage to the first
  std::vector<ChunkPass> (*order)(const Schedule&, std::int32_t stage);
  Passes in_flight;  ///< the most chunk passes in flight, see schedule.h
  Passes whole;      ///< the most of them that hold whole activations, before their input gradient
};

std::int64_t all_passes(const Schedule& s, std::int64_t) { return s.microbatches; }
std::int64_t passes_of_1f1b(const Schedule& s, std::int64_t stage) { return s.stages - stage; }
std::int64_t passes_of_interleaved(const Schedule& s, std::int64_t stage) {
  const std::int64_t p = s.stages, m = s.microbatches, v = s.virtual_stages;
  const std::int64_t late = m < p ? 0 : (v - 1) * (m % p);  // see schedule_interleaved.cpp
  return p * v + p - 2 * stage - 1 + late;
}
std::int64_t passes_of_zb_h1(const Schedule& s, std::int64_t) { return s.stages; }
std::int64_t passes_of_zb_h2(const Schedule& s, std::int64_t) { return 2 * s.stages - 1; }
std::int64_t passes_of_zb_v(const Schedule& s, std::int64_t) { return std::int64_t{2} * s.stages; }
std::int64_t whole_of_zb_h2(const Schedule& s, std::int64_t stage) { return 2 * (s.stages - stage) - 1; }

constexpr std::array kFamilies = {
    ScheduleFamily{ScheduleKind::gpipe, "gpipe", false, gpipe_order, all_passes, all_passes},
    ScheduleFamily{ScheduleKind::one_f_one_b, "1f1b", false, one_f_one_b_order, passes_of_1f1b, passes_of_1f1b},
    ScheduleFamily{ScheduleKind::interleaved, "interleaved", false, interleaved_order, passes_of_interleaved, passes_of_1f1b},
    ScheduleFamily{ScheduleKind::zb_h1, "zb-h1", false, zb_h1_order, passes_of_zb_h1, passes_of_1f1b},
    ScheduleFamily{ScheduleKind::zb_v, "zb-v", true, zb_v_order, passes_of_zb_v, passes_of_1f1b},
    ScheduleFamily{ScheduleKind::zb_h2, "zb-h2", false, zb_h2_order, passes_of_zb_h2, whole_of_zb_h2},
};

constexpr bool in_order_of_the_enum() {
  for (std::size_t i = 0; i < kFamilies.size(); ++i)
    if (kFamilies[i].kind != static_cast<ScheduleKind>(i) || kScheduleKinds[i] != kFamilies[i].kind) return false;
  return kFamilies.size() == kScheduleKinds.size();
}
static_assert(in_order_of_the_enum());

const ScheduleFamily& family_of(ScheduleKind kind) {
  const auto i = static_cast<std::size_t>(kind);
  ESPALIER_CHECK(i < kFamilies.size());
  return kFamilies[i];
}

}  // namespace

std::string_view to_string(ScheduleKind v) {
  const auto i = static_cast<std::size_t>(v);
  return i < kFamilies.size() ? kFamilies[i].name : "?";
}

std::vector<std::vector<LayerRange>> chunk_ranges(const Pipeline& pipeline) {
  std::vector<std::vector<LayerRange>> out(static_cast<std::size_t>(pipeline.schedule.chunks()));
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i)
    for (std::size_t k = 0; k < pipeline.stages[i].chunks.size(); ++k)
      out[static_cast<std::size_t>(pipeline_chunk(pipeline.schedule, static_cast<std::int32_t>(i),
                                                  static_cast<std::int32_t>(k)))] = pipeline.stages[i].chunks[k].ranges;
  return out;
}

std::int32_t pipeline_chunk(const Schedule& schedule, std::int32_t stage, std::int32_t local_chunk) {
  if (family_of(schedule.kind).turns_back && local_chunk == 1) return 2 * schedule.stages - 1 - stage;
  return local_chunk * schedule.stages + stage;
}

ChunkPlace place_of_chunk(const Schedule& schedule, std::int32_t pipeline_chunk) {
  const std::int32_t p = schedule.stages;
  if (family_of(schedule.kind).turns_back && pipeline_chunk >= p) return {2 * p - 1 - pipeline_chunk, 1};
  return {pipeline_chunk % p, pipeline_chunk / p};
}

std::int32_t max_in_flight(const Schedule& schedule, std::int32_t stage) {
  const std::int64_t all = std::int64_t{schedule.microbatches} * schedule.virtual_stages;
  return static_cast<std::int32_t>(std::min(all, family_of(schedule.kind).in_flight(schedule, stage)));
}

std::int32_t max_whole(const Schedule& schedule, std::int32_t stage) {
  const std::int64_t all = schedule.microbatches;
  return static_cast<std::int32_t>(std::min(all, family_of(schedule.kind).whole(schedule, stage)));
}

std::vector<ChunkPass> compute_order(const Schedule& schedule, std::int32_t stage) {
  ESPALIER_CHECK(schedule.stages >= 1 && schedule.microbatches >= 1 && schedule.virtual_stages >= 1);
  ESPALIER_CHECK(stage >= 0 && stage < schedule.stages);
  return family_of(schedule.kind).order(schedule, stage);
}

}  // namespace espalier
