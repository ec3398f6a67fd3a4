// SPDX-License-Identifier: Apache-2.0
// Builds the configurations that engineers would try first. Each preset is a small family (micro-batches,
// recomputation). Its fastest member that fits represents it; if none fits, the leanest does, with fits = false.
//
//   DDP                    every device a replica, gradients all-reduced during the backward pass
//   FSDP (ZeRO-3)          every device a shard of everything
//   HSDP                   ZeRO-3 inside a node, replicas across nodes
//   Megatron 3-D default   TP with sequence parallelism over a node (limited by the heads); the smallest PP that fits;
//                          1F1B; distributed optimizer (ZeRO-1); EP over a node; the rest data parallel
//   … recipe               what the authors of a framework publish for a model of this size (planner/recipes.h)
#pragma once

#include <string>
#include <vector>

#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "search/space.h"

namespace espalier::planner {

struct Baseline {
  std::string label;
  std::vector<search::Configuration> family;  ///< legal members; empty: `refusal` holds the reason
  std::string refusal;
  std::string engine = {};  ///< set if the authors used options; empty: the job's engine
};

/// Returns the Megatron 3-D default alone.
Baseline megatron_default(const Job& job);
std::vector<Baseline> baselines(const Job& job, const EngineModel& engine);

}  // namespace espalier::planner
