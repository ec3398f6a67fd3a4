// SPDX-License-Identifier: Apache-2.0
// The layer-wise program of a schedule with virtual stages: chunks by the balanced split of plan/split.h, strategies of
// the layers of each stage by layer_search.h with the micro-batch passes a stage holds. What a stage brings is
// remembered: of the layouts of a shared table (rule tied-table) only stages with the embedding or the head depend.
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
/// What is held when all chunks hold their passes, whatever runs then: a bound of what a stage needs.
solve::LayerProblem without_transients(solve::LayerProblem p);

class VirtualProgram {
 public:
  VirtualProgram(const Problem& problem, const OptionTable& table, GroupProgram& program, const Schedule& schedule,
                 const ChunkOrders& orders);

  [[nodiscard]] const Schedule& schedule() const { return schedule_; }
  void hold_table(std::int32_t table) { held_table_ = table; }

  /// The layout that embedding and head share at least cost, where memory costs what it is worth to their stages, and
  /// at least `price` a byte.
  [[nodiscard]] std::int32_t best_table(double price) const;

  /// A lower bound of every plan with this split: max over stages of its work with the way down to its first chunk, and
  /// with the way down and up. Memory: at one moment of a stage's order every chunk holds so many passes.
  double bound();
  /// Strategies of all layers, with `margin` bytes of every stage left free; empty if a stage does not fit.
  Assignment assignment(std::int64_t margin);

 private:
  /// Least work of a stage: all of it, and (where backward is in one part) its steady time alone.
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
  std::vector<std::vector<std::int32_t>> layers_;                 ///< of each stage, in order
  std::map<std::pair<std::int32_t, std::int32_t>, Least> least_;  ///< by (stage, table)
  std::map<std::pair<std::int32_t, std::int32_t>, std::pair<std::int64_t, std::optional<solve::LayerSolution>>>
      solutions_;  ///< with margin
};

}  // namespace espalier::search
