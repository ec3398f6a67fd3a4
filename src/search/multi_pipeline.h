// SPDX-License-Identifier: Apache-2.0
// Searches plans of several concurrent pipelines, one on each of some node groups. Every group trains with the
// degrees, the schedule and the number of samples that suit it. The gradients of each layer are reduced across
// pipelines once per step. Where the link between the groups is slow, this beats one pipeline through all of them,
// whose activations cross it with every micro-batch.
//
// A *column* is a pipeline on one group, on all of its nodes or fewer. For each number of samples per micro-batch it
// is the fastest of two sets of uniform plans. One set comes from the phase "each group", the other from searches
// with the group's share of the samples (pipeline_splits.h computes how many it trains in a time). Where no plan fits
// yet, a group without a column is searched with numbers of samples that divide well among its devices. With m
// micro-batches a column takes about α + τ·m, from two simulations. For every set of two or more groups and every
// choice of their columns, samples are dealt so that the slowest pipeline ends soonest:
//   min max_g (α_g + τ_g·m_g)   with Σ m_g·b_g = global batch, m_g ≥ 1.
// A table over the samples of the groups so far solves this exactly. The best of these plans are judged: they are
// priced, lowered and simulated, and every rank's memory is checked. The best of them is improved by moving samples
// between two pipelines as long as that helps. This happens first with their configurations, then with the
// configurations that best suit the new numbers of samples.
//
// The bound covers all splits of the samples (pipeline_splits.h). Where few uniform plans with few samples lie on the
// groups, all that may be faster than the best plan are judged at the end. A plan takes no less than any of its
// pipelines alone. The best plan is then the best of the phase.
#pragma once

#include <cstdint>
#include <optional>

#include "search/single_group.h"
#include "search/work_bound.h"

namespace espalier::search {

/// Holds the outcome of the phase; `bounded` counts sets of columns with their samples dealt.
struct MultiPipelineOutcome : PhaseOutcome {
  std::int64_t columns = 0;
};

/// Runs the phase. `incumbent_ns` is the best time of other phases; 0: none.
MultiPipelineOutcome multi_pipeline(const Problem& problem, Evaluator& evaluator, const SingleGroupOutcome& alone,
                                    std::int64_t incumbent_ns, const Options& options);

/// Holds the estimate of one pipeline: α + τ·m for m micro-batches of `samples`.
struct PipelineEstimate {
  std::int64_t samples = 1;
  double alpha = 0, tau = 0;
};
/// Returns the micro-batches of each pipeline; empty if the samples do not add up with at least one each.
std::vector<std::int64_t> deal_samples(const std::vector<PipelineEstimate>& pipelines, std::int64_t batch);

}  // namespace espalier::search
