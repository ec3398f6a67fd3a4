// SPDX-License-Identifier: Apache-2.0
// Solves the layer-wise program of a schedule with virtual stages. The balanced split of plan/split.h decides the
// chunks. layer_search.h chooses the strategies of the layers of each stage with the micro-batch passes that the
// stage holds. Results of a stage are cached; only stages with the embedding or the head depend on the layout of a
// shared table (rule tied-table).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "search/chunk_bound.h"
#include "search/group_program.h"

namespace espalier::search {

inline constexpr Mode kTotal = {};  ///< all work of a stage
/// Returns the problem with only the memory held while all chunks hold their passes, whatever runs then. It bounds
/// the memory that a stage needs.
solve::LayerProblem without_transients(solve::LayerProblem p);

class VirtualProgram {
 public:
  VirtualProgram(const Problem& problem, const OptionTable& table, GroupProgram& program, const Schedule& schedule,
                 const ChunkOrders& orders);

  [[nodiscard]] const Schedule& schedule() const { return schedule_; }
  void hold_table(std::int32_t table) { held_table_ = table; }

  /// Returns the layout that embedding and head share at least cost. Memory is priced at its worth to their stages,
  /// but at least at `price` per byte.
  [[nodiscard]] std::int32_t best_table(double price) const;

  /// Returns a lower bound of every plan with this split. It is the maximum over stages of the work with the warm-up
  /// to the first chunk, and of the work with warm-up and drain. For memory, every chunk holds a known number of
  /// passes at one moment of a stage's order.
  double bound();
  /// Returns strategies of all layers, with `margin` bytes of every stage left free; empty if a stage does not fit.
  Assignment assignment(std::int64_t margin);

 private:
  /// Holds the least work of a stage: all of it, and (where the backward pass is in one part) its steady time alone.
  struct Least {
    double all = 0, steady = 0;
  };
  [[nodiscard]] std::int32_t table_for(std::int32_t stage) const;
  [[nodiscard]] std::int32_t passes_of(std::int32_t stage) const;
  [[nodiscard]] solve::LayerProblem layers_of(std::int32_t stage, std::int32_t passes) const;
  const Least& least_of(std::int32_t stage);
  const std::optional<solve::LayerSolution>& solution_of(std::int32_t stage, std::int64_t margin);
  [[nodiscard]] bool zero_bubble() const { return splits_backward(schedule_.kind); }

  const Model& model_;
  const OptionTable& table_;
  GroupProgram& program_;
  const ChunkOrders& orders_;
  Schedule schedule_;
  std::int32_t held_table_ = kAnyTable;
  std::vector<std::int32_t> first_;                               ///< first layer of each pipeline chunk
  std::vector<std::vector<std::int32_t>> layers_;                 ///< layers of each stage, in order
  std::map<std::pair<std::int32_t, std::int32_t>, Least> least_;  ///< by (stage, table)
  std::map<std::pair<std::int32_t, std::int32_t>, std::pair<std::int64_t, std::optional<solve::LayerSolution>>>
      solutions_;  ///< with margin
};

}  // namespace espalier::search
