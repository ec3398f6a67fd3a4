// SPDX-License-Identifier: Apache-2.0
// Computes the groups of devices that communicate in collectives: those into which a strategy divides the devices
// of a stage.
//
// A stage lists its devices in rank order, tp innermost, then cp and dp as in RankOrder. A group of g ranks at stride
// t takes positions b + r, b + r + t, …, b + r + (g − 1)·t for r < t and b a multiple of g·t:
//     tensor           g = tp                       t = 1
//     context          g = cp                       t = tp, or tp·dp if dp lies inside cp
//     expert_tensor    g = etp                      t = 1
//     expert           g = ep                       t = etp
//     data_shard       g = shard; without ZeRO      t = tp; 1 with Ulysses, which splits no weights
//                          all that hold the weights
//     data_replica     g = shard groups that        t = that of data_shard · shard
//                          hold the weights
//     expert_shard     g = s_e of the e ranks that  t = ep·etp
//                          hold the same experts (plan/expert_shard.h)
//     expert_replica   g = e / s_e                  t = ep·etp·s_e
//     operators        as tensor
//     stage            all devices.
//
// These rules also give cost/placement.h its counts of members per level. Copies of a token table lie in several
// stages, device by device.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/plan.h"
#include "plan/steps.h"

namespace espalier {

struct GroupLayout {
  std::int64_t size = 1, stride = 1;
  bool operator==(const GroupLayout&) const = default;
};
/// Returns the layout of a group over `devices` of the stage. `kind` must not cross stages.
GroupLayout group_layout(GroupKind kind, const Strategy& s, std::int64_t devices);

/// Returns all groups of a kind, each in rank order. `devices` are those of a stage in rank order; their number is a
/// multiple of size · stride.
std::vector<std::vector<std::int64_t>> process_groups(GroupKind kind, const Strategy& s,
                                                      const std::vector<std::int64_t>& devices);

/// Lists the devices of ranges, one by one.
std::vector<std::int64_t> devices_of(const std::vector<DeviceRange>& ranges);

}  // namespace espalier
