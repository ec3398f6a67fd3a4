// SPDX-License-Identifier: Apache-2.0
// Maps the bytes of a model to ranks: parameters, gradients and optimizer states of every layer, rank by rank.
//
// Elements of a layer are numbered in an order that does not depend on the strategy. So the holdings of a rank under
// two plans of any degrees can be intersected. Operators follow each other. Inside an operator, the part that tensor
// parallelism does not split comes first. The split part follows with the split dimension outermost (outputs of
// column linears, inputs of row linears, rows of a vocabulary), queries before keys and values. For experts, the
// expert is outermost, and inside it the dimension that expert tensor parallelism splits. Under any strategy a rank
// holds a few intervals.
//
//     position r of a stage       t = r mod tp (0 with Ulysses), x = r mod etp, e = ⌊r/etp⌋ mod ep.
//     n dense elements to split   [t·⌈n/tp⌉, (t+1)·⌈n/tp⌉). A padded vocabulary is split into whole rows.
//                                 With more ranks than key/value heads: keys and values of head ⌊t·KV/tp⌋.
//                                 If the operators of the block are partitioned: see plan/block_tiles.h.
//     experts                     those of [e·E/ep, (e+1)·E/ep), of each the x-th of etp parts
//     ZeRO                        the i-th of `shard` parts of the rank's list of the layer, i its place
//                                 in its shard group (plan/process_groups.h). Parts follow Stage::state_shares
//                                 if the stage has them. Experts have s_e parts (plan/expert_shard.h).
//
// Parameters are sharded from ZeRO 3 on, gradients from 2, optimizer states (with master weights) from 1. Rows that
// only pad a vocabulary are not numbered: they are counted separately and never moved. A stage that holds a copy of
// the token table (shared_table.h) owns that copy under the embedding's strategy.
//
// Bytes equal those of the cost model (cost/state_memory.h) up to rounding. The cost model shards everything that a
// stage holds as one list, while this module shards layer by layer. So a rank has at most one extra element per layer
// and kind of element.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"
#include "plan/engine_policies.h"

namespace espalier {

/// Holds the elements first … last − 1.
struct Interval {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] std::int64_t size() const { return last - first; }
  auto operator<=>(const Interval&) const = default;
};
/// Holds ascending, disjoint, non-empty intervals.
using Intervals = std::vector<Interval>;

std::int64_t elements_of(const Intervals& set);
Intervals intersection(const Intervals& a, const Intervals& b);
/// Returns `a` without `b`.
Intervals difference(const Intervals& a, const Intervals& b);

/// Describes the part of one layer that a rank holds.
struct RankShare {
  Intervals held;            ///< its part under tensor and expert parallelism
  Intervals shard;           ///< its part of that under ZeRO; equal to `held` if nothing is sharded
  std::int64_t padding = 0;  ///< elements that pad a vocabulary, not included in `held`
  bool operator==(const RankShare&) const = default;
};

/// Names the kinds of state; held_of() selects the interval list of a kind.
enum class StateKind : std::uint8_t { parameters, gradients, optimizer };
const Intervals& held_of(const RankShare& share, StateKind kind, ZeroStage zero);
/// Returns the bytes of one element.
std::int64_t bytes_of(StateKind kind, const StatePolicy& states);

/// Describes layers that the ranks of a stage hold alike.
struct Holding {
  std::int32_t pipeline = 0, stage = 0;
  std::int32_t first_layer = 0, last_layer = 0;  ///< layers of the model; a table copy: 0 … 0
  bool table_copy = false;                       ///< only the token table of layer 0
  Strategy strategy;
  std::vector<std::int64_t> devices;       ///< in rank order
  std::vector<std::int64_t> state_shares;  ///< state_shares of the stage
};

/// Returns all holdings of the plan, pipeline by pipeline, stage by stage, layers ascending. Rejects a partition of
/// operators (Strategy::partition) that does not fit the model's blocks.
Result<std::vector<Holding>> holdings_of(const Plan& plan, const Model& model);

/// Returns the share that the rank at `position` of a holding has of each of its layers of this kind.
RankShare share_of(const Holding& holding, const Model& model, const LayerKind& kind, const EngineModel& engine,
                   std::int64_t position);

/// Counts the elements of a layer kind in the order above; for a table copy, those of the table.
std::int64_t numbered_elements(const LayerKind& kind, bool table_only = false);

}  // namespace espalier
