// SPDX-License-Identifier: Apache-2.0
// The registry of pruning rules. Each has a name, a switch and a counter of the configurations it removed. None changes
// the
// answer: a rule removes only what cannot fit, or what a proven bound shows to be slower than a configuration already
// simulated.
//
//   layer-memory      a choice of the layer group whose leanest form (full recomputation, everything sharded, one
//                     micro-batch in
//                     flight) exceeds the memory limit
//   layer-bound       max(m·W/p, P) of the layer group exceeds the incumbent; W = least work of one micro-batch in all
//                     layers, P = its way down and up
//   schedule-bound    the pipeline bound (cost/bound.h) with the cheapest recomputation (that may fit), sharding and
//                     overlap exceeds it
//   shard-bound       the same for one ZeRO stage and shard group, with the cheapest recomputation that fits and all
//                     overlap for free
//   memory            the peak bound of a configuration exceeds the limit; for full recomputation the fewest layers
//                     that fit are
//                     found by bisection, since more layers never need more memory
//   recompute-ladder  more recomputation than a configuration whose bound already exceeds the incumbent; not under
//   offload of activations
//   bound             the pipeline bound of the configuration itself exceeds the incumbent
//   pipeline-floor    its pipeline, simulated without data-parallel communication, and its tail exceed the incumbent,
//                     and a configuration of
//                     the same degrees and schedule that was simulated (pipeline_floor.h)
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::search {

enum class Pruning : std::uint8_t {
  layer_memory,
  layer_bound,
  schedule_bound,
  shard_bound,
  memory,
  recompute_ladder,
  bound,
  pipeline_floor
};
inline constexpr int kPrunings = 8;

struct PruningRule {
  Pruning id;
  std::string_view name;
  std::string_view sentence;
};
const std::array<PruningRule, kPrunings>& pruning_rules();

/// Switches and counters of one search.
class PruningState {
 public:
  PruningState() { enabled_.fill(true); }
  /// False when there is no rule of that name.
  bool disable(std::string_view name);
  [[nodiscard]] bool enabled(Pruning rule) const { return enabled_[static_cast<std::size_t>(rule)]; }
  [[nodiscard]] bool enabled_all() const {
    return std::all_of(enabled_.begin(), enabled_.end(), [](bool on) { return on; });
  }
  void count(Pruning rule, double configurations) { removed_[static_cast<std::size_t>(rule)] += configurations; }
  [[nodiscard]] double removed(Pruning rule) const { return removed_[static_cast<std::size_t>(rule)]; }
  void add(const PruningState& other) {
    for (std::size_t i = 0; i < removed_.size(); ++i) removed_[i] += other.removed_[i];
  }
  [[nodiscard]] std::map<std::string, double> counters() const;

 private:
  std::array<bool, kPrunings> enabled_{};
  std::array<double, kPrunings> removed_{};
};

}  // namespace espalier::search
