// SPDX-License-Identifier: Apache-2.0
// Defines the units that a rank shards separately under ZeRO, each as one list: the dense parameters of a layer, and
// its experts, which other groups share. If the head shares the table of an embedding, the table is a separate unit.
// So its parts have the same layout on the stage of the embedding and on stages that hold a copy.
//
// plan/ownership.h maps the elements of a layer to ranks. Rank i of a shard group owns a part of a unit of n
// elements, counted along the list:
//     [i·⌈n/g⌉, (i+1)·⌈n/g⌉)                                  equal shares, g ranks
//     [⌊n·(w_0 + … + w_{i−1})/W⌋, ⌊n·(w_0 + … + w_i)/W⌋)       Stage::state_shares w, W their sum.
//
// The rank reduces gradients to its own elements, updates them, and keeps their optimizer states.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/ownership.h"

namespace espalier {

struct StateUnit {
  std::int32_t layer = 0;
  Intervals elements;    ///< elements in the layer's numbering
  bool table = false;    ///< the table that the head shares
  bool experts = false;  ///< sharded equally over the ranks that hold the same experts
  bool operator==(const StateUnit&) const = default;
};

/// Returns the units of the layers of a holding, layers ascending; for a table copy only the table.
std::vector<StateUnit> units_of(const Holding& holding, const Model& model);

/// Returns the `shards` + 1 bounds of the parts of a list of `n` elements, the last of which is n. `weights` has one
/// entry per shard; empty: equal parts.
std::vector<std::int64_t> part_bounds(std::int64_t n, std::int64_t shards, const std::vector<std::int64_t>& weights);
/// Returns the elements from … to − 1 of a list, counted along it.
Intervals slice(const Intervals& list, std::int64_t from, std::int64_t to);

/// Describes the part of a unit that the rank at `position` holds, and the part that it owns.
struct UnitShare {
  Intervals held, own;
  std::int64_t shards = 1, shard = 0;  ///< `own` is the shard-th part of `held`
};
UnitShare share_of(const Holding& holding, const Model& model, const EngineModel& engine, const StateUnit& unit,
                   std::int64_t position);

}  // namespace espalier
