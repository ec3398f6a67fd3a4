// SPDX-License-Identifier: Apache-2.0
// Which layers each pipeline stage gets: contiguous partitions balanced in time and memory.
//
// A stage oracle answers, for stage i (0-based of p) and layers [first, end): the best the stage can do there under its memory, as
// (steady time of a micro-batch, time at the end of the step, peak memory), or that nothing fits; it is monotone: more layers never take
// less time nor less memory. The time of a partition of one-forward-one-backward with m micro-batches is
//     T = max_i ( Σ_{j<i} (steady_j + message_j) + m·steady_i + tail_i )   ≤ simulated time,
// or the published  T = Σ steady_i + (m − 1)·max steady_i + max tail_i  (Galvatron-BMW; an estimate).
//
// even         equal numbers of blocks
// time ends    p_t: min of the largest steady time;   memory ends p_m: min of the largest peak
// bi-objective (Galvatron-BMW, §5.3: published as pseudo code; this follows it): from p_m, the boundary layers of the slowest
//     stage move to its neighbours while no stage gets slower than the slowest was, none exceeds the largest memory of p_t, and all fit;
//     α_t = 1 − max C_i/Σ C_i and α_m = 1 − max O_i/Σ O_i (C time, O memory of the stages) measure the balance of each partition
// exact        the partition with the least T over all contiguous ones, by dynamic programming over (stage, first layer) with dominance on
//     (what lies before, value so far); equal to trying all partitions (tested), so never worse than any of the above
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace espalier::search {

struct StageValue {
  double steady = 0, tail = 0;
  std::int64_t peak = 0;
};
/// (stage, first layer, end layer) → value; nothing when no choice of strategies fits.
using StageOracle = std::function<std::optional<StageValue>(std::int32_t, std::int32_t, std::int32_t)>;

enum class PipelineTime : std::uint8_t { bound, published };

struct BalanceProblem {
  std::int32_t layers = 1, stages = 1, microbatches = 1;
  std::vector<double> message;  ///< [boundary i between stage i and i + 1]: both directions of one micro-batch, part of `bound`
  PipelineTime time = PipelineTime::bound;
};

struct Partition {
  std::vector<std::int32_t> first;  ///< first layer of each stage; empty: no partition fits
  std::vector<StageValue> stages;
  double time = 0;           ///< T
  double alpha_t = 0, alpha_m = 0;
};

/// The value of one partition; nothing if a stage does not fit.
std::optional<Partition> evaluate_partition(const BalanceProblem& problem, const StageOracle& oracle,
                                            const std::vector<std::int32_t>& first);
std::optional<Partition> time_balanced(const BalanceProblem& problem, const StageOracle& oracle);
std::optional<Partition> memory_balanced(const BalanceProblem& problem, const StageOracle& oracle);
/// The published loop between the two; every partition it visited is counted.
struct BiObjective {
  std::optional<Partition> best;
  std::int64_t visited = 0;
};
BiObjective bi_objective(const BalanceProblem& problem, const StageOracle& oracle);
/// Least T of all contiguous partitions that fit. Partitions whose T is not below `upper_bound` need not be found.
std::optional<Partition> best_partition(const BalanceProblem& problem, const StageOracle& oracle, double upper_bound);

}  // namespace espalier::search
