// SPDX-License-Identifier: Apache-2.0
#include "cost/rank_contexts.h"

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
  const std::deque<ScatteredStages> spread = scattered_pipelines(c.cluster(), plan);
  std::vector<const CostContext*> blocks;
  for (const Pipeline& pipeline : plan.pipelines) blocks.push_back(spread.empty() ? nullptr : c.block_context(pipeline));
  for (const RankClass& rank : program.ranks) {
    const auto pipeline = static_cast<std::size_t>(rank.pipeline), stage = static_cast<std::size_t>(rank.stage.value);
    std::vector<RankContext>& of = out.of.emplace_back();
    if (spread.empty() || blocks[pipeline] != nullptr) {
      const CostContext& here = spread.empty() ? c.of(c.place(plan.pipelines[pipeline].stages[stage])) : *blocks[pipeline];
      of.push_back({&out.sampled.of(here, samples_of_stage(plan.pipelines[pipeline], stage, 0)), 0});
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
