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
  for (const Pipeline& pipeline : plan.pipelines)
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

}  // namespace espalier::planner
