// SPDX-License-Identifier: Apache-2.0
// Under which contexts each rank class of a program is priced: for those who lay its traffic on links, step by step,
// after it was priced.
#pragma once

#include <deque>
#include <vector>

#include "cost/cluster_costs.h"
#include "cost/cost_context.h"
#include "cost/sampled_contexts.h"
#include "plan/program.h"

namespace espalier::cost {

/// What devices of a kind in a stage cost, and the samples of a micro-batch that each of their replicas takes; 0: all
/// take the same.
struct RankContext {
  const CostContext* context = nullptr;
  std::int64_t samples = 0;
};

/// By rank class all contexts of its stage: one for each kind of device in it (scattered_stages.h), else one. Moved,
/// never copied: entries point into `own`, `sampled` and to what it was made of, which outlives this value.
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

/// Those under which price(c, plan, program) has priced `program`.
RankContexts rank_contexts(const ClusterCosts& c, const Plan& plan, const Program& program);

}  // namespace espalier::cost
