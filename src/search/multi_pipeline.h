// SPDX-License-Identifier: Apache-2.0
// Plans of several pipelines next to each other, one on each of some node groups: every group trains with the degrees,
// the schedule and the number of samples that suit it, and the gradients of each layer meet between the pipelines once
// a step. Where what joins the groups is slow this beats one pipeline through all of them, whose activations cross it
// with every micro-batch.
//
// A *column* is a pipeline on one group, on all of its nodes or fewer: of the uniform plans of the phase "each group",
// and of searches with the samples that are the group's share (pipeline_splits.h says how many it trains in a time),
// the fastest for each number of samples in a micro-batch. Where no plan fits yet, a group without a column is searched
// with numbers of samples that divide well among its devices. With m micro-batches a column takes about α + τ·m, from
// two simulations. For every set of two or more groups and every choice of their columns samples are dealt so that the
// slowest pipeline ends soonest,
//     min max_g (α_g + τ_g·m_g)   with Σ m_g·b_g = global batch, m_g ≥ 1,
// exactly, by a table over the samples that the groups so far have. The best of these plans are judged (priced,
// lowered, simulated, every rank's memory), and the best of them improved by moving samples between two pipelines as
// long as that helps, first with their configurations, then with the configurations that suit the new numbers of
// samples best.
//
// The bound is that of all splits of the samples (pipeline_splits.h). Where few uniform plans with few samples lie on
// the groups, all that may be faster than the best plan are judged at the end: a plan takes no less than any of its
// pipelines alone. Then the best plan is the best of the phase.
#pragma once

#include <cstdint>
#include <optional>

#include "search/single_group.h"
#include "search/work_bound.h"

namespace espalier::search {

/// `bounded` counts sets of columns, samples dealt.
struct MultiPipelineOutcome : PhaseOutcome {
  std::int64_t columns = 0;
};

/// `incumbent_ns` of other phases; 0: none.
MultiPipelineOutcome multi_pipeline(const Problem& problem, Evaluator& evaluator, const SingleGroupOutcome& alone,
                                    std::int64_t incumbent_ns, const Options& options);

/// One pipeline's estimate: α + τ·m for m micro-batches of `samples`.
struct PipelineEstimate {
  std::int64_t samples = 1;
  double alpha = 0, tau = 0;
};
/// Micro-batches of each; empty: the samples do not add up with at least one each.
std::vector<std::int64_t> deal_samples(const std::vector<PipelineEstimate>& pipelines, std::int64_t batch);

}  // namespace espalier::search
