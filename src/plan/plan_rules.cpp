// SPDX-License-Identifier: Apache-2.0
// Defines the rules that every pipeline of a plan must satisfy.
#include <algorithm>
#include <array>

#include "base/format.h"
#include "plan/rules.h"
#include "plan/shared_table.h"

namespace espalier {
namespace {

std::string tied_table_fault(const Model& model, const Pipeline& pipeline) {
  if (!tied_table(model)) return "";
  const ChunkPlace last = place_of_chunk(pipeline.schedule, pipeline.schedule.chunks() - 1);
  const Chunk& end = pipeline.stages[static_cast<std::size_t>(last.stage)].chunks[static_cast<std::size_t>(last.local_chunk)];
  const TableLayout embedding = table_layout(pipeline.strategy()), head = table_layout(end.ranges.back().strategy);
  if (embedding == head) return "";
  return cat("the embedding has its table with ", text_of(embedding), ", the head has the same table with ", text_of(head));
}

std::string weights_again_fault(const Model& model, const Pipeline& pipeline) {
  if (std::none_of(model.kinds.begin(), model.kinds.end(), uses_again)) return "";
  if (pipeline.stages.size() > 1) return cat(pipeline.stages.size(), " stages separate layers that share weights");
  const TableLayout first = table_layout(pipeline.strategy());
  for (const Chunk& chunk : pipeline.stages.front().chunks)
    for (const LayerRange& range : chunk.ranges)
      if (table_layout(range.strategy) != first)
        return cat("weights that several layers share are laid out as ", text_of(first), " and as ",
                   text_of(table_layout(range.strategy)));
  return "";
}

constexpr std::array kPlanRules = {
    PlanRule{"again-alike",
             "layers that share the weights of an earlier one are on its stage, all with equal tp, sp, cp, dp, zero and shard",
             weights_again_fault},
    PlanRule{"tied-table",
             "embedding and head that share a table have equal tp, sp, cp, dp, zero and shard, whatever their stages",
             tied_table_fault},
};

}  // namespace

std::span<const PlanRule> plan_rules() { return kPlanRules; }

std::vector<RuleViolation> plan_violations(const Model& model, const Plan& plan) {
  std::vector<RuleViolation> broken;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const PlanRule& rule : kPlanRules) {
      const std::string fault = rule.fault(model, pipeline);
      if (!fault.empty()) broken.push_back({std::string(rule.name), fault, "give the head the strategy of the embedding"});
    }
  return broken;
}

}  // namespace espalier
