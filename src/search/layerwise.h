// SPDX-License-Identifier: Apache-2.0
// Searches the layer-wise space under the simulated time: every layer has its own strategy, every stage its own
// layers (Galvatron-BMW, in full).
//
// A plan of the space has pp stages of G = devices/pp devices, a schedule, and m micro-batches of samples =
// global_batch/m. It divides the layers contiguously into its pp·v chunks. Every layer, embedding and head included,
// has any strategy that is legal for the model as a uniform one with tp·cp·dp = G. There, dp divides the samples, and
// the rank order has pp outermost. Any ZeRO stage and shard group is possible, and recomputation none, selective or
// full. Overlap is one switch for all layers; layered_rules.h checks all of these. The schedules are 1f1b, zb-h1,
// interleaved and zb-v, and gpipe where the job leaves 1f1b out. The uniform space is part of it, with its own
// certificate. Its answer is the first incumbent, so the layer-wise answer is never slower. Rank orders other than pp
// outermost occur only in uniform plans; layers of one plan do not mix them.
//
// For each (pp, samples) the options of a layer kind are priced once (cost::layer_shares). An option is dropped if
// another of the same activation layout is at least as good in every component. For each stage, layer_search.h finds
// the best strategies of its layers under its memory with K micro-batches in flight. Then stage_balance.h finds the
// partition, and the resulting plans are simulated. The objective of a stage, for λ ∈ {1, ½, 0}, is (m − 1 +
// λ)·steady + λ·hidden + (1 − λ)·reductions + update. It is a mean of two lower bounds of the simulated time. The
// first is all work of the stage, slowed down by overlapped communication. The second is all but the last
// micro-batch, then the data stream.
//
// Finally, layer_refinement.h improves plans in the simulator: the fastest uniform plans of several pipelines, and
// the answer. Boundaries between chunks move by a layer and single layers try other strategies, while the step gets
// shorter. For the answer, either every such change is tried, or those left are counted (Refinement).
//
// The certificate relies on sums that leave out only terms ≥ 0 (edges of chunks, messages, buffers). So the least
// objective over all partitions and strategies is a lower bound for (pp, samples, schedule). With several chunks per
// stage, chunk_bound.h bounds every split. The search ends when no bound is below the incumbent, or with the
// remaining gap: lower_bound_ns.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "search/evaluator.h"
#include "search/search.h"
#include "solve/stage_balance.h"

namespace espalier::search {

/// Describes a plan of the layer-wise space by the ranges of each pipeline chunk.
struct LayeredConfiguration {
  Schedule schedule;
  std::vector<std::vector<LayerRange>> chunks;
  bool operator==(const LayeredConfiguration&) const = default;
};

struct LayeredCandidate {
  LayeredConfiguration configuration;
  std::int64_t iteration_ns = 0, peak_bytes = 0;
  std::vector<std::int32_t> options;  ///< strategy of each layer, index into the OptionTable of its (pp, samples)
};

/// Reports partitions of the answer's pipeline and their cost, each with its best strategies.
struct BalanceReport {
  struct Row {
    /// Is one of "even", "time-balanced", "memory-balanced", "bi-objective", "exact", "answer" (where it is 1f1b) and
    /// "polished".
    std::string name;
    std::vector<std::int32_t> first;  ///< first layer of each stage
    double alpha_t = 0, alpha_m = 0;
    std::int64_t iteration_ns = 0;  ///< simulated; 0: does not fit
  };
  std::vector<Row> rows;
};

/// Reports the single changes of the answer: one layer's strategy, one boundary between chunks, the overlap switches.
struct Refinement {
  std::int64_t tried = 0;
  std::int64_t left = 0;  ///< changes of the answer left untried by the budget; 0: none makes it faster
};

struct LayerwiseOptions {
  int threads = 1;
  /// Limits the number of simulated plans; 0: no limit. Groups that are solved concurrently share the remainder
  /// evenly.
  std::int64_t node_limit = 0;
  std::function<bool()> interrupted;  ///< polled often; once true, it stays true
  ProgressCallback progress;
  bool balance_report = true;
  std::optional<Candidate> uniform;  ///< uniform answer, used as the first incumbent
  std::vector<Candidate> starts;     ///< uniform plans, the fastest first; refined like the layer-wise answer
  /// Prints of plans that another search simulated, which are not counted again.
  std::set<std::uint64_t> simulated;
};

struct LayerwiseOutcome {
  std::optional<LayeredCandidate> best;     ///< nullopt when no layered plan beats the incumbent
  std::vector<LayeredCandidate> simulated;  ///< a few plans that fit, by time
  std::int64_t outer = 0;                   ///< choices of (pp, samples, schedule)
  std::int64_t solved = 0;                  ///< choices whose programs were solved
  std::int64_t simulations = 0;             ///< different plans, without those that another search simulated before
  std::set<std::uint64_t> prints;           ///< prints of all plans simulated, including those simulated before
  /// Describes the refinement of the answer; nullopt where the answer is outside the layer-wise space.
  std::optional<Refinement> refinement;
  double strategies = 0;  ///< options of a layer, summed over (pp, samples), before reduction
  double leaves = 0;      ///< after reduction
  std::int64_t lower_bound_ns = 0;
  bool complete = true, interrupted = false;
  BalanceReport balance;
};

/// Returns prints of uniform plans (plan_prints.h), for LayerwiseOptions::simulated.
std::set<std::uint64_t> prints_of(const Problem& problem, const std::vector<Candidate>& uniform);

/// Runs the layer-wise search; the evaluator judges candidates.
LayerwiseOutcome layerwise(const Problem& problem, Evaluator& evaluator, const LayerwiseOptions& options);

}  // namespace espalier::search
