// SPDX-License-Identifier: Apache-2.0
// Who holds which bytes of a model: of every layer its parameters, gradients and optimizer states, rank by rank.
//
// Elements of a layer are numbered in one order that knows no strategy, so that what a rank holds under two plans of
// any degrees can be intersected. Operators follow each other; of one operator first what tensor parallelism does not
// split, then what it does with the dimension it splits outermost (outputs of column, inputs of row linears, rows of a
// vocabulary), queries before keys and values; of experts the expert outermost and inside it the dimension that expert
// tensor parallelism splits. Under any strategy a rank holds a few intervals.
//
//     position r of a stage       t = r mod tp (0 with Ulysses), x = r mod etp, e = ⌊r/etp⌋ mod ep
//     dense, n elements to split  [t·⌈n/tp⌉, (t+1)·⌈n/tp⌉); of a padded vocabulary whole rows; with more ranks than
//     key/value heads the
//                                 keys and values of head ⌊t·KV/tp⌋
//                                 of a block whose operators are partitioned one by one: plan/block_tiles.h
//     experts                     those of [e·E/ep, (e+1)·E/ep), of each the x-th of etp parts
//     ZeRO                        of what the rank holds of the layer, as one list, the i-th of `shard` parts, i its
//                                 place in its shard group
//                                 (plan/process_groups.h), by Stage::state_shares where the stage has them; experts in
//                                 s_e (plan/expert_shard.h)
//
// Parameters are sharded from ZeRO 3 on, gradients from 2, optimizer states (with master weights) from 1. Rows that
// only pad a vocabulary are no part of the numbering: they are counted apart and nobody moves them. A stage that holds
// a copy of the token table (shared_table.h) owns that copy as the embedding's strategy says.
//
// Bytes equal what the cost model counts (cost/state_memory.h) up to rounding: that shards what a stage holds as one
// list, this layer by layer, so that a rank has at most one element a layer and kind of element more.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"
#include "plan/engine_policies.h"

namespace espalier {

/// Elements first … last − 1.
struct Interval {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] std::int64_t size() const { return last - first; }
  auto operator<=>(const Interval&) const = default;
};
/// Ascending, without overlap, none empty.
using Intervals = std::vector<Interval>;

std::int64_t elements_of(const Intervals& set);
Intervals intersection(const Intervals& a, const Intervals& b);
/// Of `a` without `b`.
Intervals difference(const Intervals& a, const Intervals& b);

/// What a rank holds of one layer.
struct RankShare {
  Intervals held;            ///< its part under tensor and expert parallelism
  Intervals shard;           ///< of that, its part under ZeRO; equal to `held` where nothing is sharded
  std::int64_t padding = 0;  ///< elements beside `held` that pad a vocabulary
  bool operator==(const RankShare&) const = default;
};

/// The kinds of state, and which of the two intervals a rank has of each.
enum class StateKind : std::uint8_t { parameters, gradients, optimizer };
const Intervals& held_of(const RankShare& share, StateKind kind, ZeroStage zero);
/// Bytes of one element.
std::int64_t bytes_of(StateKind kind, const StatePolicy& states);

/// Layers that the ranks of a stage hold alike.
struct Holding {
  std::int32_t pipeline = 0, stage = 0;
  std::int32_t first_layer = 0, last_layer = 0;  ///< of the model; a table copy: 0 … 0
  bool table_copy = false;                       ///< of layer 0 the token table alone
  Strategy strategy;
  std::vector<std::int64_t> devices;       ///< in rank order
  std::vector<std::int64_t> state_shares;  ///< of the stage
};

/// All that the plan holds, pipeline by pipeline, stage by stage, layers ascending. Refused: a partition of operators
/// (Strategy::partition) that is not one of the model's blocks.
Result<std::vector<Holding>> holdings_of(const Plan& plan, const Model& model);

/// What the rank at `position` of a holding has of each of its layers of this kind.
RankShare share_of(const Holding& holding, const Model& model, const LayerKind& kind, const EngineModel& engine,
                   std::int64_t position);

/// Elements of a layer kind in the order above; of a table copy the table's.
std::int64_t numbered_elements(const LayerKind& kind, bool table_only = false);

}  // namespace espalier
