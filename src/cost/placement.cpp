// SPDX-License-Identifier: Apache-2.0
#include "cost/placement.h"

#include <algorithm>
#include <numeric>

#include "base/invariant.h"

namespace espalier::cost {
namespace {

std::int64_t run_members(std::int64_t count, std::int64_t stride, std::int64_t span) {
  if (count <= 1) return 1;
  const std::int64_t extent = count * stride;
  if (span % extent == 0) return count;
  if (extent % span == 0) return std::max<std::int64_t>(1, span / stride);
  return std::max<std::int64_t>(1, std::gcd(extent, span) / stride);
}

/// Holds a stage's devices in the order of its coordinates: `inner` consecutive ones, repeated `outer` times at
/// `outer_stride`.
struct StageLayout {
  std::int64_t inner, outer, outer_stride;
};

StageLayout stage_layout(const Strategy& s, std::int32_t stages) {
  const std::int64_t tp_cp = std::int64_t{s.tp} * s.cp;
  if (s.order == RankOrder::tp_cp_pp_dp) return {tp_cp, s.dp, tp_cp * stages};
  return {tp_cp * s.dp, 1, 0};
}

/// Places groups that are no product of runs (6 of 12 ranks where a node holds 4). It counts the ranks of the first
/// group domain by domain; the domain with the fewest of them decides.
Group place_one_by_one(const std::vector<FabricLevel>& levels, const StageLayout& layout, std::int64_t count,
                       std::int64_t stride) {
  Group group;
  group.size = count;
  group.levels = static_cast<int>(levels.size());
  for (std::size_t k = 0; k < levels.size(); ++k) {
    std::int64_t fewest = count, here = 0, domain = -1;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t rank = i * stride;
      const std::int64_t device = rank % layout.inner + rank / layout.inner * layout.outer_stride;
      if (device / levels[k].span != domain) {
        if (domain >= 0) fewest = std::min(fewest, here);
        domain = device / levels[k].span;
        here = 0;
      }
      ++here;
    }
    group.members[k] = std::min(fewest, here);
  }
  if (group.levels > 0) group.members[static_cast<std::size_t>(group.levels - 1)] = count;
  return group;
}

/// Counts one more group of listed devices: the domain with the fewest of its ranks decides at every level.
void count_listed(const std::vector<FabricLevel>& levels, const std::vector<std::int64_t>& devices, Group& group) {
  for (std::size_t k = 0; k < levels.size(); ++k)
    group.members[k] = std::min(group.members[k], members_by_domain(devices, levels[k].span).front());
}

/// Places all groups of `count` ranks at `stride` in the stages' lists.
Group place_listed(const std::vector<FabricLevel>& levels, const StageDevices& stages, std::int64_t count, std::int64_t stride) {
  ESPALIER_CHECK(static_cast<int>(levels.size()) <= kMaxLevels);
  Group group;
  group.size = count;
  group.levels = static_cast<int>(levels.size());
  group.members.fill(count);
  const std::int64_t block = count * stride;
  std::vector<std::int64_t> members(static_cast<std::size_t>(count));
  for (const std::vector<std::int64_t>& devices : stages) {
    for (std::int64_t first = 0; first + block <= static_cast<std::int64_t>(devices.size()); first += block) {
      for (std::int64_t r = 0; r < stride; ++r) {
        for (std::int64_t i = 0; i < count; ++i)
          members[static_cast<std::size_t>(i)] = devices[static_cast<std::size_t>(first + r + i * stride)];
        count_listed(levels, members, group);
      }
    }
  }
  if (group.levels > 0) group.members[static_cast<std::size_t>(group.levels - 1)] = count;
  return group;
}

/// Returns the lowest level over which every rank of one list reaches the rank at its place in the other.
int listed_link_level(const std::vector<FabricLevel>& levels, const std::vector<std::int64_t>& from,
                      const std::vector<std::int64_t>& to) {
  ESPALIER_CHECK(from.size() == to.size());
  std::size_t level = 0;
  for (std::size_t n = 0; n < from.size(); ++n)
    while (level + 1 < levels.size() && from[n] / levels[level].span != to[n] / levels[level].span) ++level;
  return static_cast<int>(level);
}

/// Places `count` ranks at `stride` in the stage's own order on the fabric.
Group place_in_stage(const Placing& at, const StageLayout& layout, std::int64_t count, std::int64_t stride) {
  const std::vector<FabricLevel>& levels = at.levels;
  if (at.listed != nullptr && count > 1) return place_listed(levels, *at.listed, count, stride);
  if (count <= 1) return place_group(levels, 1, 1);
  const bool one_run = layout.outer == 1 || (count - 1) * stride < layout.inner;
  const bool product =
      stride >= layout.inner ? stride % layout.inner == 0 : layout.inner % stride == 0 && count % (layout.inner / stride) == 0;
  if (!one_run && !product) return place_one_by_one(levels, layout, count, stride);
  const std::int64_t fit = std::max<std::int64_t>(1, layout.inner / stride);
  if (one_run) return place_group(levels, count, stride);
  if (stride >= layout.inner) return place_group(levels, 1, 1, count, layout.outer_stride * (stride / layout.inner));
  return place_group(levels, fit, stride, count / fit, layout.outer_stride);
}

/// Returns the stride of the data ranks in the stage's own order. tp_dp_cp and tp_cp_dp both put them right after tp.
std::int64_t data_stride(const Strategy& s) { return s.sp == SequenceParallel::ulysses ? 1 : s.tp; }

}  // namespace

Group place_group(const std::vector<FabricLevel>& levels, std::int64_t inner, std::int64_t inner_stride, std::int64_t outer,
                  std::int64_t outer_stride) {
  ESPALIER_CHECK(static_cast<int>(levels.size()) <= kMaxLevels);
  Group group;
  group.size = inner * outer;
  group.levels = static_cast<int>(levels.size());
  for (int k = 0; k < group.levels; ++k) {
    const std::int64_t span = levels[static_cast<std::size_t>(k)].span;
    group.members[static_cast<std::size_t>(k)] = run_members(inner, inner_stride, span) * run_members(outer, outer_stride, span);
  }
  if (group.levels > 0) group.members[static_cast<std::size_t>(group.levels - 1)] = group.size;
  return group;
}

Group run_group(const Placing& at, std::int64_t count) {
  if (at.listed != nullptr && count > 1) return place_listed(at.levels, *at.listed, count, 1);
  return place_group(at.levels, count, 1);
}

Group tp_group(const Placing& at, const Strategy& s) { return run_group(at, s.tp); }

Group cp_group(const Placing& at, const Strategy& s) {
  const std::int64_t stride = s.order == RankOrder::tp_dp_cp_pp ? std::int64_t{s.tp} * s.dp : s.tp;
  if (at.listed != nullptr && s.cp > 1) return place_listed(at.levels, *at.listed, s.cp, stride);
  return place_group(at.levels, s.cp, stride);
}

Group data_group(const Placing& at, const Strategy& s, std::int32_t stages, std::int64_t ranks) {
  return place_in_stage(at, stage_layout(s, stages), ranks, data_stride(s));
}

Group replica_group(const Placing& at, const Strategy& s, std::int32_t stages) {
  const std::int64_t shard = std::max<std::int32_t>(1, s.shard);
  return place_in_stage(at, stage_layout(s, stages), s.data_ranks() / shard, data_stride(s) * shard);
}

Group ep_group(const Placing& at, const Strategy& s, std::int32_t stages) {
  return place_in_stage(at, stage_layout(s, stages), s.ep, s.etp);
}

Group expert_data_group(const Placing& at, const Strategy& s, std::int32_t stages) {
  return place_in_stage(at, stage_layout(s, stages), s.expert_data_ranks(), std::int64_t{s.ep} * s.etp);
}

int stage_link_level(const Placing& at, const Strategy& s, std::int32_t stages, std::int32_t from, std::int32_t to) {
  const std::vector<FabricLevel>& levels = at.levels;
  if (at.listed != nullptr)
    return listed_link_level(levels, at.listed->at(static_cast<std::size_t>(from)), at.listed->at(static_cast<std::size_t>(to)));
  const StageLayout layout = stage_layout(s, stages);
  const std::int64_t stride = layout.inner;  // in both orders the next stage begins after `inner` devices
  const std::int64_t a = std::min(from, to) * stride, b = std::max(from, to) * stride;
  const std::int64_t block = stride * stages;  // repeated by dp in tp_cp_pp_dp
  for (int k = 0; k < static_cast<int>(levels.size()); ++k) {
    const std::int64_t span = levels[static_cast<std::size_t>(k)].span;
    const bool aligned = layout.outer == 1 || span % block == 0 || block % span == 0;
    const bool first = a / span == b / span;
    const bool last = (a + stride - 1) / span == (b + stride - 1) / span;
    if (aligned && first && last) return k;
  }
  return static_cast<int>(levels.size()) - 1;
}

bool pipeline_crosses(const Placing& at, const Strategy& s, std::int32_t stages, int node_levels) {
  for (std::int32_t i = 1; i < stages; ++i)
    if (stage_link_level(at, s, stages, i - 1, i) >= node_levels) return true;
  return false;
}

}  // namespace espalier::cost
