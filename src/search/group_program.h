// SPDX-License-Identifier: Apache-2.0
// One choice of (pp, samples a micro-batch) of the layer-wise space: what its stages can do with their layers,
// remembered.
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

/// The choices of the layer group with one (pp, samples), and what the layers of a plan share under the engine: one
/// class, whatever they have, where it restricts nothing.
struct GroupChoices {
  std::int32_t stages = 1;
  std::int64_t samples = 1;
  std::int32_t microbatches = 1;
  LayerClass shared;
  std::vector<Configuration> bases;
  double bound_ns = 0;
};

/// How a stage's layers are judged when strategies and partition are chosen.
struct Mode {
  double lambda = 1.0;  ///< objective of a stage: see layerwise.h
  bool way = false;     ///< the way down and up to a stage counts as its stages choose; else the way down at its least
  bool steady = false;  ///< of a stage only its steady time counts
  bool proven = true;   ///< the least value over partitions is a lower bound
};
// With the way the value is a bound only if every stage reports the least steady time it can have; strategies chosen
// with sync in view make better plans, so both are tried.
inline constexpr std::array<Mode, 5> kModes = {{{1.0, true, false, false},
                                                {1.0, false, false, true},
                                                {0.5, false, false, true},
                                                {0.0, false, false, true},
                                                {1.0, true, true, true}}};

/// Times a stage that came out too large is solved again with less room.
inline constexpr int kMemoryRounds = 8;

/// Strategies of all layers, with the partition they belong to.
struct Assignment {
  std::vector<std::int32_t> first, options;
  [[nodiscard]] bool empty() const { return options.empty(); }
};

/// The same program with costs rounded to a hundredth of the least time of a layer: many choices tie, and the search
/// for plans is fast; what it finds is timed exactly afterwards.
solve::LayerProblem coarse(solve::LayerProblem p, const solve::LayerObjective& objective);

class GroupProgram {
 public:
  GroupProgram(const Model& model, const CostBook& book, const OptionTable& table, const GroupChoices& group, ScheduleKind kind);

  struct Solved {
    bool fits = false;
    solve::LayerSolution solution;
  };
  /// The best choice for layers [first, end) on a stage with its micro-batches in flight.
  const Solved& stage(std::int32_t stage, std::int32_t first, std::int32_t end, const Mode& mode);
  [[nodiscard]] solve::LayerObjective objective(const Mode& mode) const;
  /// What every stage adds whatever its layers.
  [[nodiscard]] double constant_ns(const Mode& mode) const;
  /// The same of so many passes.
  [[nodiscard]] double constant_ns(double passes) const { return update_ns_ + passes * pass_ns_; }

  /// The partition problem: the way to a stage and its work, or the largest objective of a stage.
  [[nodiscard]] solve::BalanceProblem balance(const Mode& mode) const;
  /// Lower bounds of what stages can do, from convex hulls (solve::layers_lower_bound): cheap. Peaks are 0. Refers to
  /// this object.
  solve::StageOracle bounds(const Mode& mode);
  /// What stages can do, peaks included: a program of the layers each. Refers to this object.
  solve::StageOracle oracle(const Mode& mode);
  /// The strategies of every layer under a partition; empty if a stage does not fit.
  Assignment assignment(const std::vector<std::int32_t>& first, const Mode& mode);

  /// Embedding and head that share a table have it in this layout from here on (kAnyTable: each in its own, for
  /// bounds).
  void hold_table(std::int32_t table) { table_layout_ = table; }
  /// Whether layers [first, end) have a layer that uses a table shared by embedding and head.
  [[nodiscard]] bool uses_table(std::int32_t first, std::int32_t end) const {
    return table_.tied() && (first == 0 || end == static_cast<std::int32_t>(model_.layers.size()));
  }
  /// The layout that embedding and head share at least cost under a partition, where memory costs what it is worth to
  /// their stages, and at least `price` a byte.
  [[nodiscard]] std::int32_t best_table(const std::vector<std::int32_t>& first, const Mode& mode, double price) const;
  /// Room that a stage needs beside its layers, found by measuring.
  void widen(std::int32_t stage, std::int64_t bytes) { margins_[static_cast<std::size_t>(stage)] += bytes; }
  /// Margins are facts about single plans: a bound of all plans starts without them.
  void forget_margins() { std::fill(margins_.begin(), margins_.end(), 0); }
  /// Bytes of tensors of the layers of a stage, at most, before any margin.
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  /// Least steady time of a layer under any strategy.
  [[nodiscard]] double floor_ns(std::int32_t layer) const;
  [[nodiscard]] double forward_floor_ns(std::int32_t layer) const;  ///< of its forward pass alone

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
  /// What a stage's program depends on.
  [[nodiscard]] Key key_of(std::int32_t stage, std::int32_t first, std::int32_t end, const Mode& mode) const;
  [[nodiscard]] std::int32_t in_flight(std::int32_t stage) const;
  [[nodiscard]] solve::LayerProblem program_of(std::int32_t stage, std::int32_t first, std::int32_t end, const Mode& mode) const;
  [[nodiscard]] solve::StageValue value_of(const Mode& mode, std::int32_t first, std::int32_t end, double steady, double all,
                                           std::int64_t peak) const;

  std::map<Key, Solved> solved_;
  std::map<Key, double> bounds_;
};

}  // namespace espalier::search
