// SPDX-License-Identifier: Apache-2.0
// The layer-wise space: every layer its own strategy, every stage its own layers (Galvatron-BMW, whole), under the
// simulated time.
//
// A plan of the space has pp stages of G = devices/pp devices, a schedule, m micro-batches of samples = global_batch/m,
// a contiguous partition of the layers into its pp·v chunks, and for every layer (embedding and head are layers) any
// strategy that is legal for the model as a uniform one with these: tp·cp·dp = G, dp divides the samples, orders of
// ranks with pp outermost, any ZeRO stage and shard group, recomputation none, selective or full. Overlap is one switch
// for all layers (layered_rules.h judges all of it). The schedules are 1f1b, zb-h1, interleaved and zb-v, and gpipe
// where the job leaves 1f1b out. The uniform space is part of it, with its own certificate:
// its answer is the first incumbent, so the layer-wise answer is never slower. Of uniform plans alone it has those with
// another order of ranks than pp outermost; layers of one plan do not mix them.
//
// For each (pp, samples) the options of a layer kind are priced once (cost::layer_shares) and reduced to those that no
// other of the same activation layout equals or beats in every component. A stage asks layer_search.h for the best
// strategies of its layers under its memory with K micro-batches in flight; stage_balance.h finds the partition; what
// comes out is simulated. Objective of a stage, for λ ∈ {1, ½, 0}: (m − 1 + λ)·steady + λ·hidden + (1 − λ)·reductions +
// update, a mean of two lower bounds of the simulated time: all work of the stage, slowed down by what hides beside it;
// and all but the last micro-batch, then the data stream.
//
// Last, in the simulator (layer_refinement.h): of the fastest uniform plans of several pipelines and of the answer,
// boundaries between chunks move by a layer and single layers try other strategies, while the step gets shorter. For
// the answer every such change is tried, or those left are counted (Refinement).
//
// Certificate: sums leave out only what is ≥ 0 (edges of chunks, messages, buffers), so the least objective over all
// partitions and strategies is a lower bound for (pp, samples, schedule); with several chunks a stage chunk_bound.h
// bounds every split. The search ends when no bound is below the incumbent, or with the gap that is left:
// lower_bound_ns.
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

/// A plan of the layer-wise space: ranges of each pipeline chunk.
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

/// Partitions of the answer's pipeline and what they cost with the strategies that are best for each.
struct BalanceReport {
  struct Row {
    std::string name;  ///< "even", "time-balanced", "memory-balanced", "bi-objective", "exact", "answer" (where it is
                       ///< 1f1b),
                       ///< "polished"
    std::vector<std::int32_t> first;  ///< first layer of each stage
    double alpha_t = 0, alpha_m = 0;
    std::int64_t iteration_ns = 0;  ///< simulated; 0: does not fit
  };
  std::vector<Row> rows;
};

/// Single changes of the answer: one layer's strategy, one boundary between chunks, the overlap switches.
struct Refinement {
  std::int64_t tried = 0;
  std::int64_t left = 0;  ///< changes of the answer that the budget left untried; 0: none of them makes it faster
};

struct LayerwiseOptions {
  int threads = 1;
  std::int64_t node_limit = 0;        ///< plans simulated; 0 = no limit. Groups solved side by side share what is left
                                      ///< evenly
  std::function<bool()> interrupted;  ///< polled all the time; once true it stays so
  ProgressCallback progress;
  bool balance_report = true;
  std::optional<Candidate> uniform;   ///< the uniform answer: the first incumbent
  std::vector<Candidate> starts;      ///< uniform plans, the fastest first: refined like the layer-wise answer
  std::set<std::uint64_t> simulated;  ///< prints of plans that another search simulated: not counted again
};

struct LayerwiseOutcome {
  std::optional<LayeredCandidate> best;     ///< nothing when no layered plan beats the incumbent
  std::vector<LayeredCandidate> simulated;  ///< that fit, by time; a few
  std::int64_t outer = 0;                   ///< choices of (pp, samples, schedule)
  std::int64_t solved = 0;                  ///< of these, whose programs were solved
  std::int64_t simulations = 0;             ///< different plans, none that another search simulated before
  std::set<std::uint64_t> prints;           ///< of all plans simulated, those before included
  std::optional<Refinement> refinement;     ///< of the answer; nothing where the layer-wise space does not hold it
  double strategies = 0;                    ///< options of a layer, summed over (pp, samples), before reduction
  double leaves = 0;                        ///< after
  std::int64_t lower_bound_ns = 0;
  bool complete = true, interrupted = false;
  BalanceReport balance;
};

/// Prints of uniform plans (plan_prints.h), for LayerwiseOptions::simulated.
std::set<std::uint64_t> prints_of(const Problem& problem, const std::vector<Candidate>& uniform);

/// The evaluator judges candidates.
LayerwiseOutcome layerwise(const Problem& problem, Evaluator& evaluator, const LayerwiseOptions& options);

}  // namespace espalier::search
