// SPDX-License-Identifier: Apache-2.0
#include "planner/plan_layers.h"

#include <algorithm>

namespace espalier::planner {
std::int32_t layer_count(const Stage& stage) {
  std::int32_t n = 0;
  for (const Chunk& chunk : stage.chunks) n += chunk.last() - chunk.first() + 1;
  return n;
}

std::int32_t last_layer_of(const Plan& plan) {
  std::int32_t last = 0;
  for (const Pipeline& pipeline : plan.pipelines) last = std::max(last, last_layer_of(pipeline));
  return last;
}

std::int32_t last_layer_of(const Pipeline& pipeline) {
  std::int32_t last = 0;
  for (const Stage& stage : pipeline.stages)
    for (const Chunk& chunk : stage.chunks) last = std::max(last, chunk.last());
  return last;
}

std::string layers_by_stage(const Plan& plan) {
  std::string out;
  for (const Pipeline& pipeline : plan.pipelines) {
    if (!out.empty()) out.append(" | ");
    for (std::size_t i = 0; i < pipeline.stages.size(); ++i)
      out.append(i == 0 ? "" : "+").append(std::to_string(layer_count(pipeline.stages[i])));
  }
  return out;
}

std::vector<std::int32_t> stage_counts(const Plan& plan) {
  std::vector<std::int32_t> out;
  for (const Pipeline& pipeline : plan.pipelines) out.push_back(pipeline.schedule.stages);
  return out;
}

std::optional<std::pair<Strategy, Schedule>> uniform_configuration(const Plan& plan) {
  if (!plan.uniform()) return std::nullopt;
  const Pipeline& pipeline = plan.only_pipeline();
  return std::pair(pipeline.strategy(), pipeline.schedule);
}

}  // namespace espalier::planner
