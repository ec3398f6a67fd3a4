// SPDX-License-Identifier: Apache-2.0
#include "plan/dimensions_used.h"

#include <bitset>

namespace espalier {
namespace {

using Used = std::bitset<16>;

Used used_by(const Strategy& s, const Schedule& c) {
  Used used;
  std::size_t at = 0;
  const auto count = [&](bool yes) { used[at++] = yes; };
  count(s.tp > 1);
  count(s.cp > 1);
  count(s.ep > 1);
  count(s.etp > 1);
  count(c.stages > 1);
  count(c.virtual_stages > 1);
  count(s.sp != SequenceParallel::none);
  count(s.shards_optimizer());
  count(s.shards_optimizer() && s.shard < s.data_ranks());
  count(s.recompute.kind != RecomputeKind::none);
  count(c.stages > 1 && c.kind != ScheduleKind::one_f_one_b);
  count(!s.partition.empty());
  return used;
}

}  // namespace

std::int32_t dimensions_used(const Strategy& strategy, const Schedule& schedule) {
  return static_cast<std::int32_t>(used_by(strategy, schedule).count());
}

std::int32_t dimensions_used(const Plan& plan) {
  Used used;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const Chunk& chunk : stage.chunks)
        for (const LayerRange& range : chunk.ranges) used |= used_by(range.strategy, pipeline.schedule);
  return static_cast<std::int32_t>(used.count()) + (plan.uniform() ? 0 : 1);
}

}  // namespace espalier
