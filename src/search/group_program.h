// SPDX-License-Identifier: Apache-2.0
// Represents one choice of (pp, samples per micro-batch) of the layer-wise space: caches how well each stage can run
// its layers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "search/layer_options.h"
#include "solve/stage_balance.h"

namespace espalier::search {

/// Holds the choices of the layer group with one (pp, samples), and the properties that all layers of a plan must
/// share under the engine. An engine without restrictions puts all of them into one class.
struct GroupChoices {
  std::int32_t stages = 1;
  std::int64_t samples = 1;
  std::int32_t microbatches = 1;
  LayerClass shared;
  std::vector<Configuration> bases;
  double bound_ns = 0;
};

/// Selects how a stage's layers are judged when strategies and partition are chosen.
struct Mode {
  double lambda = 1.0;  ///< objective of a stage: see layerwise.h
  /// Decides whether warm-up and drain count with the chosen strategies; else only the least warm-up counts.
  bool way = false;
  bool steady = false;  ///< whether only the steady time of a stage counts
  bool proven = true;   ///< whether the least value over partitions is a lower bound
};
// If Mode::way is set, the value is a bound only if every stage reports its least possible steady time. Choosing
// strategies with sync included makes better plans, so both modes are tried.
inline constexpr std::array<Mode, 5> kModes = {{{1.0, true, false, false},
                                                {1.0, false, false, true},
                                                {0.5, false, false, true},
                                                {0.0, false, false, true},
                                                {1.0, true, true, true}}};

/// Limits how often a stage that came out too large is solved again with less memory.
inline constexpr int kMemoryRounds = 8;

/// Holds the strategies of all layers and their partition.
struct Assignment {
  std::vector<std::int32_t> first, options;
  [[nodiscard]] bool empty() const { return options.empty(); }
};

/// Returns the same program with costs rounded to a hundredth of the least time of a layer. Many choices then tie,
/// and the search for plans is fast. Its results are timed exactly afterwards.
solve::LayerProblem coarse(solve::LayerProblem p, const solve::LayerObjective& objective);

class GroupProgram {
 public:
  GroupProgram(const Model& model, const CostBook& book, const OptionTable& table, const GroupChoices& group, ScheduleKind kind);

  struct Solved {
    bool fits = false;
    solve::LayerSolution solution;
  };
  /// Returns the best choice for layers [first, end) on a stage with its micro-batches in flight.
  const Solved& stage(std::int32_t stage, std::int32_t first, std::int32_t end, const Mode& mode);
  [[nodiscard]] solve::LayerObjective objective(const Mode& mode) const;
  /// Returns the time that every stage adds, independent of its layers.
  [[nodiscard]] double constant_ns(const Mode& mode) const;
  /// Returns this constant for a number of passes.
  [[nodiscard]] double constant_ns(double passes) const { return update_ns_ + passes * pass_ns_; }

  /// Builds the partition problem: the warm-up to a stage and its work, or the largest objective of a stage.
  [[nodiscard]] solve::BalanceProblem balance(const Mode& mode) const;
  /// Returns an oracle with lower bounds of the stages from convex hulls (solve::layers_lower_bound), which are
  /// cheap. Peaks are 0. The oracle refers to this object.
  solve::StageOracle bounds(const Mode& mode);
  /// Returns an oracle that solves a program of the layers for each stage and includes peaks. The oracle refers to
  /// this object.
  solve::StageOracle oracle(const Mode& mode);
  /// Returns the strategies of every layer under a partition; empty if a stage does not fit.
  Assignment assignment(const std::vector<std::int32_t>& first, const Mode& mode);

  /// Fixes the layout of a table that embedding and head share (kAnyTable: each has its own, for bounds).
  void hold_table(std::int32_t table) { table_layout_ = table; }
  /// Returns whether layers [first, end) include a layer that uses a table shared by embedding and head.
  [[nodiscard]] bool uses_table(std::int32_t first, std::int32_t end) const {
    return table_.tied() && (first == 0 || end == static_cast<std::int32_t>(model_.layers.size()));
  }
  /// Returns the layout that embedding and head share at least cost under a partition. Memory is priced at its worth
  /// to their stages, but at least at `price` per byte.
  [[nodiscard]] std::int32_t best_table(const std::vector<std::int32_t>& first, const Mode& mode, double price) const;
  /// Reserves memory that measurements show a stage to need in addition to its layers.
  void widen(std::int32_t stage, std::int64_t bytes) { margins_[static_cast<std::size_t>(stage)] += bytes; }
  /// Resets the margins. They apply to single plans, so a bound of all plans starts without them.
  void forget_margins() { std::fill(margins_.begin(), margins_.end(), 0); }
  /// Returns the limit on bytes of tensors of the layers of a stage, before any margin.
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  /// Returns the least steady time of a layer under any strategy.
  [[nodiscard]] double floor_ns(std::int32_t layer) const;
  [[nodiscard]] double forward_floor_ns(std::int32_t layer) const;  ///< least time of its forward pass alone

 private:
  [[nodiscard]] bool zero_bubble() const { return splits_backward(schedule_.kind); }

  const Model& model_;
  const OptionTable& table_;
  Schedule schedule_;
  std::int32_t table_layout_ = kAnyTable;
  std::int64_t capacity_ = 0;
  double update_ns_ = 0, pass_ns_ = 0;
  std::vector<std::int64_t> margins_;
  using Key = std::vector<std::int64_t>;
  /// Returns the inputs that a stage's program depends on, as a cache key.
  [[nodiscard]] Key key_of(std::int32_t stage, std::int32_t first, std::int32_t end, const Mode& mode) const;
  [[nodiscard]] std::int32_t in_flight(std::int32_t stage) const;
  [[nodiscard]] solve::LayerProblem program_of(std::int32_t stage, std::int32_t first, std::int32_t end, const Mode& mode) const;
  [[nodiscard]] solve::StageValue value_of(const Mode& mode, std::int32_t first, std::int32_t end, double steady, double all,
                                           std::int64_t peak) const;

  std::map<Key, Solved> solved_;
  std::map<Key, double> bounds_;
};

}  // namespace espalier::search
