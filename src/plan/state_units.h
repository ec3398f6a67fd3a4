// SPDX-License-Identifier: Apache-2.0
// What a rank keeps as one list with its own parts under ZeRO: the dense parameters of a layer and, apart from them,
// its experts, which other groups share. Of an embedding whose table the head shares the table is apart from the rest
// too, so that its parts lie alike on the stage of the embedding and on stages that hold a copy.
//
// plan/ownership.h says which elements of a layer a rank holds. Of a unit of n elements that it holds, rank i of its
// shard group owns
//     [i·⌈n/g⌉, (i+1)·⌈n/g⌉)                                  equal shares, g ranks
//     [⌊n·(w_0 + … + w_{i−1})/W⌋, ⌊n·(w_0 + … + w_i)/W⌋)       Stage::state_shares w, W their sum
// counted along the list. What it owns is what it reduces gradients to, updates and keeps optimizer states of.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/ownership.h"

namespace espalier {

struct StateUnit {
  std::int32_t layer = 0;
  Intervals elements;    ///< of the layer's numbering
  bool table = false;    ///< the table that the head shares
  bool experts = false;  ///< sharded over the ranks that hold the same experts, equally
  bool operator==(const StateUnit&) const = default;
};

/// Units of the layers of a holding, layers ascending; of a table copy the table alone.
std::vector<StateUnit> units_of(const Holding& holding, const Model& model);

/// Where the parts of a list of `n` elements begin, and n: `shards` + 1 numbers. `weights`: of each shard; empty:
/// equal.
std::vector<std::int64_t> part_bounds(std::int64_t n, std::int64_t shards, const std::vector<std::int64_t>& weights);
/// The elements from … to − 1 of a list, counted along it.
Intervals slice(const Intervals& list, std::int64_t from, std::int64_t to);

/// What the rank at `position` has of a unit: all that it holds, and the part that it owns.
struct UnitShare {
  Intervals held, own;
  std::int64_t shards = 1, shard = 0;  ///< `own` is the shard-th part of `held`
};
UnitShare share_of(const Holding& holding, const Model& model, const EngineModel& engine, const StateUnit& unit,
                   std::int64_t position);

}  // namespace espalier
