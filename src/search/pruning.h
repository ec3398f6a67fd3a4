// SPDX-License-Identifier: Apache-2.0
// Registers the pruning rules. Each has a name, a switch and a counter of the configurations it removed. None changes
// the answer. A rule removes only configurations that cannot fit, or that a proven bound shows to be slower than one
// already simulated.
//
// - layer-memory: the leanest form of a layer-group choice exceeds the memory limit. That form has full
//   recomputation, everything sharded, and one micro-batch in flight.
// - layer-bound: max(m·W/p, P) of the layer group exceeds the incumbent. W is the least work of one micro-batch in
//   all layers, P its warm-up and drain.
// - schedule-bound: the pipeline bound (cost/bound.h) exceeds the incumbent, with the cheapest recomputation (that
//   may fit), sharding and overlap.
// - shard-bound: the bound of one ZeRO stage and shard group exceeds it, with the cheapest recomputation that fits
//   and all overlap free.
// - memory: the peak bound of a configuration exceeds the limit. For full recomputation, bisection finds the fewest
//   layers that fit, since more layers never need more memory.
// - recompute-ladder: a configuration recomputes more than one whose bound already exceeds the incumbent. The rule is
//   off under offload of activations.
// - bound: the pipeline bound of the configuration itself exceeds the incumbent.
// - pipeline-floor: the pipeline, simulated without data-parallel communication, takes longer with its tail than the
//   incumbent. It also takes longer than a simulated configuration of the same degrees and schedule
//   (pipeline_floor.h).
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

/// Holds the switches and counters of one search.
class PruningState {
 public:
  PruningState() { enabled_.fill(true); }
  /// Returns false when there is no rule of that name.
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
