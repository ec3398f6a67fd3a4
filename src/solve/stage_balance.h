// SPDX-License-Identifier: Apache-2.0
// Which layers each pipeline stage gets: contiguous partitions balanced in time and memory. Every stage has at least
// one layer.
//
// A stage oracle answers, for stage i (0-based of p) and layers [first, end): the best the stage can do there under its
// memory, as (steady time of a micro-batch, time at the end of the step, peak memory), or that nothing fits. The time
// of a partition of one-forward-one-backward with m micro-batches is
//     T = max_i ( Σ_{j<i} (steady_j + message_j) + m·steady_i + tail_i )   ≤ simulated time,
// or the published  T = Σ steady_i + (m − 1)·max steady_i + max tail_i  (Galvatron-BMW; an estimate).
//
// The oracle is monotone in the layers of a stage: what does not fit still does not fit with more layers, and m·steady
// + tail never falls. best_partition needs no more to be exact (an oracle that minimises m·steady + tail under its
// memory has it; its steady time or its peak alone may well fall). time_balanced needs the same of steady,
// memory_balanced of peak. T of one choice of strategies a stage does not bound the other choices: a stage's steady
// time also delays those after it. It does when the oracle answers with the least steady time and, as tail, least
// (m·steady + tail) − m·(least steady), each found by itself.
// Sums and products are exact for integers (nanoseconds) with T below 2^46; else "equal" and "least" hold up to
// rounding.
//
// even         equal numbers of blocks (plan/split.h)
// time ends    p_t: min of the largest steady time;   memory ends p_m: min of the largest peak
// bi-objective (Galvatron-BMW, §5.3: published as pseudo code; this follows it): from p_m, a boundary layer of the
// slowest stage
//     moves to a neighbour if then no stage is slower than the slowest was, none exceeds the largest memory of p_t, and
//     all fit;
//     again from every partition so reached, until there is no new one. Best of all by T.
//     α_t = 1 − max C_i/Σ C_i and α_m = 1 − max O_i/Σ O_i (C steady time, O peak of the stages) measure the balance
// exact        the partition with the least T over all contiguous ones, by dynamic programming over (stage, first
//              layer)
//     (solve/partition_search.h); equal to trying all partitions (tested), so never worse than any of the above
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
/// (stage, first layer, end layer) → value; nothing when no choice of strategies fits.
using StageOracle = std::function<std::optional<StageValue>(std::int32_t, std::int32_t, std::int32_t)>;

enum class PipelineTime : std::uint8_t { bound, published };

struct BalanceProblem {
  std::int32_t layers = 1, stages = 1, microbatches = 1;
  std::vector<double>
      message;  ///< [boundary i between stage i and i + 1]: both directions of one micro-batch, part of `bound`; empty:
                ///< 0
  PipelineTime time = PipelineTime::bound;
  /// [layer] a share of the steady time that no stage can beat: steady(i, first, end) ≥ Σ layer_floor over [first,
  /// end); for example the fastest option of each layer. Changes no answer, saves most calls of the oracle. Empty: 0.
  std::vector<double> layer_floor;
};

struct Partition {
  std::vector<std::int32_t> first;  ///< first layer of each stage
  std::vector<StageValue> stages;
  double time = 0;  ///< T
  double alpha_t = 0, alpha_m = 0;
};

/// The oracle with a memory: each interval is asked once, and none that contains one that did not fit. The functions
/// below remember by themselves within one call; share this between calls. Copies share their memory; not for several
/// threads at once.
StageOracle memoised(const BalanceProblem& problem, StageOracle oracle);

/// The value of one partition; nothing if a stage does not fit.
std::optional<Partition> evaluate_partition(const BalanceProblem& problem, const StageOracle& oracle,
                                            const std::vector<std::int32_t>& first);

/// The least of the largest steady time; of equal ones the least T, then the lexicographically smallest `first`.
/// Nothing if no partition fits.
std::optional<Partition> time_balanced(const BalanceProblem& problem, const StageOracle& oracle);
/// The same for the largest peak.
std::optional<Partition> memory_balanced(const BalanceProblem& problem, const StageOracle& oracle);

/// The published loop between the two; every partition it accepted is counted, p_m included.
struct BiObjective {
  std::optional<Partition> best;  ///< of equal T the first reached
  std::int64_t visited = 0;
  bool complete = true;  ///< false: the loop was cut at `most`
};
BiObjective bi_objective(const BalanceProblem& problem, const StageOracle& oracle, std::int64_t most = 20'000);

/// Least T of all contiguous partitions that fit, of equal ones the lexicographically smallest `first`. Nothing if none
/// fits or none has T < `upper_bound`. The better the bound, the fewer calls; without one, a time-balanced partition
/// gives it.
std::optional<Partition> best_partition(const BalanceProblem& problem, const StageOracle& oracle,
                                        double upper_bound = std::numeric_limits<double>::infinity());

}  // namespace espalier::solve
