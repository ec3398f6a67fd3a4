// SPDX-License-Identifier: Apache-2.0
// Assigns layers to pipeline stages: contiguous partitions balanced in time and memory. Every stage has at least one
// layer.
//
// A stage oracle evaluates stage i (0-based of p) on layers [first, end). It returns the stage's best value under its
// memory, as (steady time of a micro-batch, time at the end of the step, peak memory), or nothing if none fits. The
// time of a partition of one-forward-one-backward with m micro-batches is
//     T = max_i ( Σ_{j<i} (steady_j + message_j) + m·steady_i + tail_i )   ≤ simulated time,
// or the published  T = Σ steady_i + (m − 1)·max steady_i + max tail_i  (Galvatron-BMW; an estimate).
//
// The oracle is monotone in the layers of a stage: layers that do not fit still do not fit with more layers, and
// m·steady + tail never falls. Under these conditions best_partition is exact. An oracle that minimises m·steady +
// tail under its memory meets them; its steady time or its peak alone may fall. In addition, time_balanced requires
// this of steady, and memory_balanced of peak. T of one choice of strategies per stage does not bound the other
// choices, because a stage's steady time also delays later stages. It does if the oracle returns the least steady
// time and, as tail, least (m·steady + tail) − m·(least steady), each minimised separately. Sums and products are
// exact for integers (nanoseconds) with T below 2^46. Otherwise "equal" and "least" hold up to rounding.
//
// The partitions are:
// - even: equal numbers of blocks (plan/split.h).
// - time end p_t: the least largest steady time. Memory end p_m: the least largest peak.
// - bi-objective (Galvatron-BMW, §5.3; published as pseudo code, which this follows): the loop starts from p_m. It
//   moves a boundary layer of the slowest stage to a neighbour under three conditions. No stage becomes slower than
//   the slowest was, none exceeds the largest memory of p_t, and all fit. It repeats from every partition reached in
//   this way until there is no new one. The best by T is returned. The balance of the stages is
//   α_t = 1 − max C_i/Σ C_i and α_m = 1 − max O_i/Σ O_i (C steady time, O peak).
// - exact: the partition with the least T over all contiguous ones, by dynamic programming over (stage, first layer)
//   (solve/partition_search.h). Tests compare it with trying all partitions, so it is never worse than any of the
//   above.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace espalier::solve {

struct StageValue {
  double steady = 0, tail = 0;  ///< ≥ 0, finite
  std::int64_t peak = 0;        ///< ≥ 0
};
/// (stage, first layer, end layer) → value; nullopt when no choice of strategies fits.
using StageOracle = std::function<std::optional<StageValue>(std::int32_t, std::int32_t, std::int32_t)>;

enum class PipelineTime : std::uint8_t { bound, published };

struct BalanceProblem {
  std::int32_t layers = 1, stages = 1, microbatches = 1;
  /// [boundary i between stage i and i + 1] holds both directions of one micro-batch, part of `bound`; empty: 0.
  std::vector<double> message;
  PipelineTime time = PipelineTime::bound;
  /// Holds for each [layer] a share of the steady time that no stage can beat: steady(i, first, end) ≥ Σ layer_floor
  /// over [first, end). An example is the fastest option of each layer. It changes no answer but saves most calls of
  /// the oracle. Empty: 0.
  std::vector<double> layer_floor;
};

struct Partition {
  std::vector<std::int32_t> first;  ///< first layer of each stage
  std::vector<StageValue> stages;
  double time = 0;  ///< T
  double alpha_t = 0, alpha_m = 0;
};

/// Returns the oracle with a cache: each interval is evaluated once, and no interval that contains one that did not
/// fit. The functions below cache within one call; use this to share results between calls. Copies share their cache,
/// which is not thread-safe.
StageOracle memoised(const BalanceProblem& problem, StageOracle oracle);

/// Returns the value of one partition; nullopt if a stage does not fit.
std::optional<Partition> evaluate_partition(const BalanceProblem& problem, const StageOracle& oracle,
                                            const std::vector<std::int32_t>& first);

/// Returns the partition with the least largest steady time; among equal ones the least T, then the lexicographically
/// smallest `first`. Returns nullopt if no partition fits.
std::optional<Partition> time_balanced(const BalanceProblem& problem, const StageOracle& oracle);
/// Returns the partition with the least largest peak in the same way.
std::optional<Partition> memory_balanced(const BalanceProblem& problem, const StageOracle& oracle);

/// Holds the result of the published loop between the two; `visited` counts every partition it accepted, p_m
/// included.
struct BiObjective {
  std::optional<Partition> best;  ///< among equal T the first reached
  std::int64_t visited = 0;
  bool complete = true;  ///< false: the loop was cut at `most`
};
BiObjective bi_objective(const BalanceProblem& problem, const StageOracle& oracle, std::int64_t most = 20'000);

/// Returns the partition with the least T of all contiguous ones that fit; among equal ones the lexicographically
/// smallest `first`. Returns nullopt if none fits or none has T < `upper_bound`. A better bound needs fewer calls;
/// without one, a time-balanced partition provides it.
std::optional<Partition> best_partition(const BalanceProblem& problem, const StageOracle& oracle,
                                        double upper_bound = std::numeric_limits<double>::infinity());

}  // namespace espalier::solve
