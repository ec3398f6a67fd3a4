// SPDX-License-Identifier: Apache-2.0
// Finds which recomputation choices below a schedule choice may fit, for any ZeRO stage and shard group.
//
// A choice may fit if no stage's peak bound exceeds the limit. The bound adds static bytes under the sharding and the
// least activations that the schedule holds (cost/bound.h). Both grow with the elements, the framework bytes and the
// activations of a stage. A stage that has no more of any of these than another one, under every choice, is therefore
// never decisive. Only the other stages are kept: in most pipelines one to three.
//
// A table depends on the degrees of a strategy, its offload, the modules that it names for recomputation,
// micro-batches and schedule. It does not depend on rank order, the kind of context parallelism, overlaps or the
// sharding of states. MemoryTables caches tables.
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
  std::vector<std::int64_t> activations;  ///< least activations; choice-major, by stage that may be decisive
  std::size_t first_full = 0;             ///< index of the first choice of full recomputation
  bool falling = true;                    ///< no stage holds more activations with more layers of full recomputation
  /// Holds the inputs of cost::static_bytes: the stages that may be decisive, and the largest message.
  cost::Costs parts;
  std::vector<char> best_case;  ///< choices that may fit under the sharding that leaves each stage least
};

/// Builds the table of a schedule choice; w.layers holds its layer costs. Overwrites w.bytes and the stages of
/// w.costs.
MemoryTable memory_table(const CostBook& book, const Space& space, const Configuration& choice, Workspace& w);

/// Returns which choices may fit together with the static bytes of sharding `s`. As a rule more recomputed layers
/// need less memory. The full choices that fit are then a suffix, which bisection finds.
std::vector<char> fitting(const CostBook& book, const MemoryTable& table, const Strategy& s, const Workspace& w);

/// Caches tables up to a fixed number. There is one object per thread, for one problem.
class MemoryTables {
 public:
  /// Returns the table of a schedule choice; fills w.layers if the table had to be built. The reference stays valid
  /// until the next call.
  const MemoryTable& of(const CostBook& book, const Space& space, const Configuration& choice, Workspace& w);

 private:
  using Key = std::array<std::int32_t, 13>;
  std::unordered_map<Key, MemoryTable, base::WordHash> known_;
  MemoryTable last_;  ///< table of a choice that is not cached
};

}  // namespace espalier::search
