// SPDX-License-Identifier: Apache-2.0
// Plans of several pipelines beside each other, one on each of some node groups: every group trains with the degrees, the schedule and the number
// of samples that suit it, and the gradients of each layer meet between the pipelines once a step. Where what joins the groups is slow this beats
// one pipeline through all of them, whose activations cross it with every micro-batch.
//
// A *column* is a pipeline on one group: of the uniform plans that the phase "each group" simulated the fastest for each number of samples in a
// micro-batch, at most kColumns. With m micro-batches it takes about α + τ·m, from two simulations. For every set of two or more groups and every
// choice of their columns samples are dealt so that the slowest pipeline ends soonest,
//     min max_g (α_g + τ_g·m_g)   with Σ m_g·b_g = global batch, m_g ≥ 1,
// exactly, by a table over the samples that the groups so far have. The best of these plans are judged (priced, lowered, simulated, every rank's memory)
// and the best of them improved by moving samples between two pipelines as long as that helps.
//
// Where few uniform plans with few samples lie on the groups, all that may be faster beside each other than the best plan are judged at the end: a plan
// takes no less than any of its pipelines alone. Then the best plan is the best of the phase. Else, where the phase has the answer, what proves it is the bound
// of all splits of the samples (pipeline_splits.h), or that of all work.
//
// The bound of all work. A layer ℓ takes at least c_gℓ device-seconds a sample on kind g: its forward and backward with the whole batch in one kernel each, on one
// device (kernels only lose when work is cut up, cost/operator_cost.h). If x_gℓ samples of layer ℓ are computed on kind g, Σ_g x_gℓ = B and
// Σ_ℓ c_gℓ·x_gℓ ≤ n_g·T, with n_g the sum of the speeds of its devices. For any y_g ≥ 0, summing the latter with these weights,
//     T ≥ B·Σ_ℓ min_g (y_g·c_gℓ) / Σ_g y_g·n_g;
// y_g = 1 / Σ_ℓ c_gℓ. It holds for every plan on these devices, whatever its pipelines; communication, bubbles and updates are left out.
#pragma once

#include <cstdint>
#include <optional>

#include "search/each_group.h"

namespace espalier::search {

inline constexpr std::size_t kColumns = 6;       ///< of a group
inline constexpr std::size_t kJudged = 48;       ///< plans, by their estimates
inline constexpr std::int64_t kMostDeals = 400;  ///< plans simulated to improve the best one
inline constexpr std::size_t kMostGroups = 5;    ///< with more node groups the phase is left out

struct UnlikePipelinesOutcome {
  std::optional<GroupedCandidate> best;
  std::int64_t columns = 0, combinations = 0, simulations = 0, without_room = 0;
  bool complete = true, interrupted = false;
  std::int64_t lower_bound_ns = 0;  ///< no plan of the phase takes less
};

/// `incumbent_ns` of other phases; 0: none.
UnlikePipelinesOutcome unlike_pipelines(const Problem& problem, Evaluator& evaluator, const EachGroupOutcome& alone,
                                        std::int64_t incumbent_ns, const Options& options);

/// The bound of all work.
std::int64_t work_bound_ns(const Problem& problem);

/// The least that the work of a step costs, at the prices of the groups' devices:
///     Σ_ℓ min_g (B·c_gℓ · price_g)
/// holds for every plan on any of the devices, since every sample of every layer is computed on one of the kinds. 0 where a group has no price.
double least_cost_of_work(const Problem& problem);

/// One pipeline's estimate: α + τ·m for m micro-batches of `samples`.
struct PipelineEstimate {
  std::int64_t samples = 1;
  double alpha = 0, tau = 0;
};
/// Micro-batches of each; empty: the samples do not add up with at least one each.
std::vector<std::int64_t> deal_samples(const std::vector<PipelineEstimate>& pipelines, std::int64_t batch);

}  // namespace espalier::search
