// SPDX-License-Identifier: Apache-2.0
// The contexts under which each rank class of a program is priced, for code that lays its traffic on links, step by
// step, after pricing.
#pragma once

#include <deque>
#include <vector>

#include "cost/cluster_costs.h"
#include "cost/cost_context.h"
#include "cost/sampled_contexts.h"
#include "plan/program.h"

namespace espalier::cost {

/// Holds the costs of devices of a kind in a stage, and the samples of a micro-batch that each of their replicas
/// takes; 0: all take the same.
struct RankContext {
  const CostContext* context = nullptr;
  std::int64_t samples = 0;
};

/// Holds, by rank class, all contexts of its stage: one for each kind of device in it (scattered_stages.h), else one.
/// It is moved, never copied: entries point into `own`, into `sampled` and into its source, which outlives it.
struct RankContexts {
  RankContexts() = default;
  RankContexts(const RankContexts&) = delete;
  RankContexts(RankContexts&&) = default;
  RankContexts& operator=(const RankContexts&) = delete;
  RankContexts& operator=(RankContexts&&) = default;
  ~RankContexts() = default;

  std::vector<std::vector<RankContext>> of;  ///< by rank of the program; the first is never missing
  std::deque<CostContext> own;
  SampledContexts sampled;
};

/// Returns the contexts under which price(c, plan, program) has priced `program`.
RankContexts rank_contexts(const ClusterCosts& c, const Plan& plan, const Program& program);

}  // namespace espalier::cost
