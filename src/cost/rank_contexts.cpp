// SPDX-License-Identifier: Apache-2.0
#include "cost/rank_contexts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cost/scattered_stages.h"

namespace espalier::cost {

RankContexts rank_contexts(const ClusterCosts& c, const Plan& plan, const Program& program) {
  RankContexts out;
  std::optional<CostContext> placed;
  if (const CostContext* shared = c.shared_context(plan, placed)) {
    if (placed) shared = &out.own.emplace_back(std::move(*placed));
    out.of.assign(program.ranks.size(), {RankContext{shared, 0}});
    return out;
  }
  const bool any_scattered =
      std::any_of(plan.pipelines.begin(), plan.pipelines.end(), [&](const Pipeline& p) { return is_scattered(c.cluster(), p); });
  std::vector<ScatteredStages> spread;
  if (any_scattered)
    for (const Pipeline& pipeline : plan.pipelines) spread.emplace_back(c.cluster(), pipeline);
  for (const RankClass& rank : program.ranks) {
    const auto pipeline = static_cast<std::size_t>(rank.pipeline), stage = static_cast<std::size_t>(rank.stage.value);
    std::vector<RankContext>& of = out.of.emplace_back();
    if (!any_scattered) {
      const CostContext& here = c.of(c.place(plan.pipelines[pipeline].stages[stage]));
      of.push_back({&out.sampled.of(here, samples_of_stage(plan.pipelines[pipeline], stage, 0)), 0});
      continue;
    }
    if (const CostContext* block = c.block_context(plan.pipelines[pipeline])) {
      of.push_back({&out.sampled.of(*block, samples_of_stage(plan.pipelines[pipeline], stage, 0)), 0});
      continue;
    }
    for (std::size_t k = 0; k < spread[pipeline].kinds(stage).size(); ++k) {
      const std::int64_t samples = spread[pipeline].kinds(stage)[k].samples;
      out.own.push_back(c.context(spread[pipeline], stage, k));
      of.push_back({&out.sampled.of(out.own.back(), samples_of_stage(plan.pipelines[pipeline], stage, samples)), samples});
    }
  }
  return out;
}

}  // namespace espalier::cost
