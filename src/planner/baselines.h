// SPDX-License-Identifier: Apache-2.0
// The configurations engineers would try first. Each preset is a small family (micro-batches, recomputation); its
// fastest member that fits stands for it, or the leanest one with fits = false.
//
//   DDP                   every device a replica, gradients all-reduced beside the backward
//   FSDP (ZeRO-3)         every device a shard of everything
//   HSDP                  ZeRO-3 inside a node, replicas across nodes
//   Megatron 3-D default  TP with sequence parallelism over a node (at most the devices of a node and the heads), the
//   smallest PP that
//                         fits, 1F1B, distributed optimizer (ZeRO-1), experts over a node (EP), the rest data parallel
//   … recipe             what the authors of a framework publish for a model of this size (planner/recipes.h)
#pragma once

#include <string>
#include <vector>

#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "search/space.h"

namespace espalier::planner {

struct Baseline {
  std::string label;
  std::vector<search::Configuration> family;  ///< legal members; empty: `refusal` says why
  std::string refusal;
  std::string engine = {};  ///< with the options that its authors used; empty: that of the job
};

/// The Megatron 3-D default alone.
Baseline megatron_default(const Job& job);
std::vector<Baseline> baselines(const Job& job, const EngineModel& engine);

}  // namespace espalier::planner
