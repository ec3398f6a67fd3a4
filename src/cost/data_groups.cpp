// SPDX-License-Identifier: Apache-2.0
#include "cost/data_groups.h"

#include <algorithm>

#include "plan/expert_shard.h"

namespace espalier::cost {

DataGroups data_groups(const Fabric& fabric, const Strategy& s, std::int32_t stages) {
  const std::int64_t shard = s.shards_optimizer() ? s.shard : s.data_ranks();
  DataGroups g;
  g.sharded = s.shards_optimizer();
  g.shard = data_group(fabric.placing(), s, stages, shard);
  g.replica = replica_group(fabric.placing(), s, stages);
  if (!s.shards_optimizer()) g.replica = Group{};
  const std::int64_t expert_ranks = s.expert_data_ranks();
  g.expert_shard = expert_data_group(fabric.placing(), s, stages);
  g.expert_replica = Group{};
  if (s.shards_optimizer()) {
    // Both groups are placed like the whole replica group.
    const std::int64_t expert_shard = expert_shard_of(s);
    g.expert_replica = g.expert_shard;
    g.expert_shard.size = expert_shard;
    g.expert_replica.size = expert_ranks / expert_shard;
    for (int k = 0; k < g.expert_shard.levels; ++k) {
      auto& inside = g.expert_shard.members[static_cast<std::size_t>(k)];
      auto& outside = g.expert_replica.members[static_cast<std::size_t>(k)];
      outside = std::max<std::int64_t>(1, inside / expert_shard);
      inside = std::min(inside, expert_shard);
    }
  }
  return g;
}

}  // namespace espalier::cost
