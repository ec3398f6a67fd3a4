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
  for (const Stage& stage : plan.only_pipeline().stages) {
    for (const Chunk& chunk : stage.chunks) last = std::max(last, chunk.last());
  }
  return last;
}

std::string layers_by_stage(const Plan& plan) {
  std::string out;
  for (const Stage& stage : plan.only_pipeline().stages)
    out.append(out.empty() ? "" : "+").append(std::to_string(layer_count(stage)));
  return out;
}

}  // namespace espalier::planner
