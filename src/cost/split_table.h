// SPDX-License-Identifier: Apache-2.0
// Where pipeline chunks begin, and which layers each holds, ready to be summed over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"
#include "plan/structure.h"

namespace espalier::cost {

inline constexpr std::size_t kMaxKinds = 64;  ///< of layers in a model

/// A split of the model's layers into p·v chunks, with what is needed to sum costs over a chunk quickly.
class SplitTable {
 public:
  SplitTable() = default;
  /// `first[c]` = first layer of pipeline chunk c.
  SplitTable(const Model& model, const std::vector<std::int32_t>& first);
  [[nodiscard]] std::int32_t chunks() const { return static_cast<std::int32_t>(first_.size()); }
  [[nodiscard]] std::int32_t first(std::int32_t chunk) const { return first_[static_cast<std::size_t>(chunk)]; }
  [[nodiscard]] std::int32_t last(std::int32_t chunk) const { return chunk + 1 < chunks() ? first(chunk + 1) - 1 : layers_ - 1; }
  /// Layers of each chunk.
  [[nodiscard]] const std::vector<std::int32_t>& layer_counts() const { return layer_counts_; }
  /// Consecutive layers of one kind.
  struct Run {
    std::int32_t kind = 0, layers = 0;
  };
  /// The layers of a chunk in order.
  [[nodiscard]] const std::vector<Run>& runs(std::int32_t chunk) const { return runs_[static_cast<std::size_t>(chunk)]; }
  /// The first chunk whose layers are of the same kinds in the same order: its costs are this chunk's costs.
  [[nodiscard]] std::int32_t twin(std::int32_t chunk) const { return twins_[static_cast<std::size_t>(chunk)]; }

 private:
  std::vector<std::int32_t> first_, layer_counts_, twins_;
  std::vector<std::vector<Run>> runs_;
  std::int32_t layers_ = 0;
};

/// Layers first … last as runs; reuses the memory of `out`.
void runs_of(const Model& model, std::int32_t first, std::int32_t last, std::vector<SplitTable::Run>& out);

/// Split of a plan as it stands, or the engine's split for p·v chunks.
SplitTable split_of(const Model& model, const Plan& plan);
SplitTable split_for(const Model& model, const Training& training, const EngineModel& engine, std::int32_t chunks);

/// The structure of a configuration without building a Plan; equals structure_of(make_uniform_plan(…)).
void structure_for(const Model& model, const Strategy& s, const Schedule& schedule, const SplitTable& split,
                   ProgramStructure& out);

}  // namespace espalier::cost
