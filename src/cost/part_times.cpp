// SPDX-License-Identifier: Apache-2.0
#include "cost/part_times.h"

#include <cmath>

#include "base/invariant.h"
#include "cost/chunk_sum.h"
#include "cost/data_groups.h"

namespace espalier::cost {
namespace {

const Group& placed(const DataGroups& groups, GroupKind kind) {
  switch (kind) {
    case GroupKind::data_replica: return groups.replica;
    case GroupKind::expert_shard: return groups.expert_shard;
    case GroupKind::expert_replica: return groups.expert_replica;
    default: return groups.shard;
  }
}

/// Returns the number of stages of the pipeline that owns the collective.
std::int32_t stages_of(const Program& program, CollectiveId id) {
  std::size_t k = 0;
  while (k + 1 < program.pipelines.size() && program.pipelines[k + 1].first_collective <= id.value) ++k;
  return program.pipelines[k].structure.schedule.stages;
}

double part_s(const CostContext& context, const Program& program, CollectiveId id, const CollectivePart& part) {
  // Such a part is alone in its collective.
  if (part.group == GroupKind::table_copies || program.collectives[id].pipelines.valid()) return 1.0;
  const Strategy& strategy = program.strategies[static_cast<std::size_t>(part.strategy)];
  const DataGroups groups = data_groups(context.fabric, strategy, stages_of(program, id));
  return part.share *
         message_s(context.fabric, {part.kind, part.group, placed(groups, part.group), part.bytes, part.message_bytes});
}

}  // namespace

std::vector<std::int64_t> part_times(const CostContext& context, const Program& program, const Costs& costs, CollectiveId id) {
  const Collective& collective = program.collectives[id];
  std::vector<double> until;  // seconds of the parts so far
  double sum = 0;
  for (std::int32_t n = collective.parts_begin; n < collective.parts_end; ++n) {
    sum += part_s(context, program, id, program.parts[static_cast<std::size_t>(n)]);
    until.push_back(sum);
  }
  std::vector<std::int64_t> times;
  const std::int64_t whole = costs.collectives[id].count();
  std::int64_t given = 0;
  for (const double seconds : until) {
    const std::int64_t end = sum > 0 ? std::llround(static_cast<double>(whole) * (seconds / sum)) : 0;
    times.push_back(end - given);
    given = end;
  }
  return times;
}

}  // namespace espalier::cost
