// SPDX-License-Identifier: Apache-2.0
#include "plan/process_groups.h"

#include <algorithm>

#include "base/invariant.h"
#include "plan/expert_shard.h"

namespace espalier {
namespace {

std::int64_t shard_of(const Strategy& s) { return std::max<std::int64_t>(1, s.shards_optimizer() ? s.shard : s.data_ranks()); }

GroupLayout dense_layout(GroupKind kind, const Strategy& s) {
  const std::int64_t stride = s.sp == SequenceParallel::ulysses ? 1 : s.tp;
  const std::int64_t shard = shard_of(s);
  if (kind == GroupKind::data_shard) return {shard, stride};
  return {s.data_ranks() / shard, stride * shard};
}

GroupLayout expert_layout(GroupKind kind, const Strategy& s) {
  const std::int64_t stride = std::int64_t{s.ep} * s.etp;
  const std::int64_t ranks = s.expert_data_ranks();
  const std::int64_t shard = s.shards_optimizer() ? expert_shard_of(s) : ranks;
  if (kind == GroupKind::expert_shard) return {shard, stride};
  return {ranks / shard, stride * shard};
}

}  // namespace

GroupLayout group_layout(GroupKind kind, const Strategy& s, std::int64_t devices) {
  switch (kind) {
    case GroupKind::tensor:
    case GroupKind::operators: return {s.tp, 1};
    case GroupKind::context: return {s.cp, s.order == RankOrder::tp_dp_cp_pp ? std::int64_t{s.tp} * s.dp : s.tp};
    case GroupKind::expert_tensor: return {s.etp, 1};
    case GroupKind::expert: return {s.ep, s.etp};
    case GroupKind::data_shard:
    case GroupKind::data_replica: return dense_layout(kind, s);
    case GroupKind::expert_shard:
    case GroupKind::expert_replica: return expert_layout(kind, s);
    case GroupKind::stage: return {devices, 1};
    case GroupKind::table_copies: break;
  }
  ESPALIER_CHECK(false);
  return {};
}

std::vector<std::vector<std::int64_t>> process_groups(GroupKind kind, const Strategy& s,
                                                      const std::vector<std::int64_t>& devices) {
  const auto count = static_cast<std::int64_t>(devices.size());
  const GroupLayout layout = group_layout(kind, s, count);
  const std::int64_t block = layout.size * layout.stride;
  ESPALIER_CHECK(layout.size >= 1 && layout.stride >= 1 && count % block == 0);
  std::vector<std::vector<std::int64_t>> groups;
  for (std::int64_t first = 0; first < count; first += block) {
    for (std::int64_t r = 0; r < layout.stride; ++r) {
      std::vector<std::int64_t>& group = groups.emplace_back();
      for (std::int64_t k = 0; k < layout.size; ++k)
        group.push_back(devices[static_cast<std::size_t>(first + r + k * layout.stride)]);
    }
  }
  return groups;
}

std::vector<std::int64_t> devices_of(const std::vector<DeviceRange>& ranges) {
  std::vector<std::int64_t> devices;
  for (const DeviceRange& range : ranges)
    for (std::int64_t k = 0; k < range.count; ++k) devices.push_back(range.first + k * range.stride);
  return devices;
}

}  // namespace espalier
