// SPDX-License-Identifier: Apache-2.0
// Which recomputation choices below a schedule choice may fit, for any ZeRO stage and shard group.
//
// A choice may fit if no stage's peak bound exceeds the limit: static bytes under the sharding, and the least
// activations that the schedule holds (cost/bound.h). Both grow with the elements, the framework bytes and the
// activations of a stage; so a stage that has no more of any of them than another one, under every choice, never
// decides, and only the others are kept: of most pipelines one to three.
//
// A table depends on the degrees of a strategy, on what it offloads, on micro-batches and schedule; not on rank order,
// on the kind of context parallelism, on overlaps or on how states are sharded. MemoryTables remembers.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/word_hash.h"
#include "cost/costs.h"
#include "espalier/plan.h"

namespace espalier::search {

class CostBook;
class Space;
struct Configuration;
struct Workspace;

struct MemoryTable {
  std::vector<Recompute> choices;         ///< none, selective, full 1, 2, …
  std::vector<std::int64_t> activations;  ///< least ones; choice-major, by stage that may decide
  std::size_t first_full = 0;             ///< the first choice of full recomputation
  bool falling = true;                    ///< no stage holds more activations with more layers of full recomputation
  /// What cost::static_bytes reads: the stages that may decide, and the largest message.
  cost::Costs parts;
  std::vector<char> best_case;  ///< choices that may fit under the sharding that leaves each stage least
};

/// The table of a schedule choice; w.layers holds its layer costs. Overwrites w.bytes and the stages of w.costs.
MemoryTable memory_table(const CostBook& book, const Space& space, const Configuration& choice, Workspace& w);

/// Which choices may fit beside the static bytes of sharding `s`. As a rule more recomputed layers need less memory, so
/// that the full ones that fit are a suffix, found by bisection.
std::vector<char> fitting(const CostBook& book, const MemoryTable& table, const Strategy& s, const Workspace& w);

/// Remembers tables up to a fixed number. One per thread, for one problem.
class MemoryTables {
 public:
  /// The table of a schedule choice, and w.layers filled if it had to be made. Stays valid until the next call.
  const MemoryTable& of(const CostBook& book, const Space& space, const Configuration& choice, Workspace& w);

 private:
  using Key = std::array<std::int32_t, 12>;
  std::unordered_map<Key, MemoryTable, base::WordHash> known_;
  MemoryTable last_;  ///< of a choice that is not remembered
};

}  // namespace espalier::search
