// SPDX-License-Identifier: Apache-2.0
// The first layer of each pipeline chunk and the layers that the chunk holds, ready to be summed over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"
#include "plan/structure.h"

namespace espalier::cost {

inline constexpr std::size_t kMaxKinds = 64;  ///< layer kinds in a model

/// Holds a split of the model's layers into p·v chunks, prepared for quick sums of costs over a chunk.
class SplitTable {
 public:
  SplitTable() = default;
  /// Takes the first layer of each pipeline chunk c as `first[c]`.
  SplitTable(const Model& model, const std::vector<std::int32_t>& first);
  [[nodiscard]] std::int32_t chunks() const { return static_cast<std::int32_t>(first_.size()); }
  [[nodiscard]] std::int32_t first(std::int32_t chunk) const { return first_[static_cast<std::size_t>(chunk)]; }
  [[nodiscard]] std::int32_t last(std::int32_t chunk) const { return chunk + 1 < chunks() ? first(chunk + 1) - 1 : layers_ - 1; }
  /// Returns the number of layers of each chunk.
  [[nodiscard]] const std::vector<std::int32_t>& layer_counts() const { return layer_counts_; }
  /// Holds consecutive layers of one kind.
  struct Run {
    std::int32_t kind = 0, layers = 0;
  };
  /// Returns the layers of a chunk in order.
  [[nodiscard]] const std::vector<Run>& runs(std::int32_t chunk) const { return runs_[static_cast<std::size_t>(chunk)]; }
  /// Returns the first chunk whose layers are of the same kinds in the same order, and whose costs are therefore the
  /// same.
  [[nodiscard]] std::int32_t twin(std::int32_t chunk) const { return twins_[static_cast<std::size_t>(chunk)]; }

 private:
  std::vector<std::int32_t> first_, layer_counts_, twins_;
  std::vector<std::vector<Run>> runs_;
  std::int32_t layers_ = 0;
};

/// Writes layers first … last to `out` as runs, and reuses its memory.
void runs_of(const Model& model, std::int32_t first, std::int32_t last, std::vector<SplitTable::Run>& out);

/// Returns the engine's split for p·v chunks.
SplitTable split_for(const Model& model, const Training& training, const EngineModel& engine, std::int32_t chunks);

/// Computes the structure of a configuration without building a Plan; equals structure_of(make_uniform_plan(…)).
void structure_for(const Model& model, const Strategy& s, const Schedule& schedule, const SplitTable& split,
                   ProgramStructure& out);

}  // namespace espalier::cost
