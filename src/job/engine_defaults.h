// SPDX-License-Identifier: Apache-2.0
// Returns an engine's defaults for ZeRO stage, sequence parallelism, recomputation and overlap, from the cited
// data/framework_defaults.yaml. An engine that is not listed there (generic) has 0, none, none, and the overlaps that
// it cannot switch off.
#pragma once

#include <string>

#include "espalier/job.h"

namespace espalier::job {

struct EngineDefaults {
  ZeroStage zero = ZeroStage::none;
  SequenceParallel sp = SequenceParallel::none;  ///< where tp is above 1
  RecomputeKind recompute = RecomputeKind::none;
  Overlap overlap;  ///< where there is something to overlap
};

EngineDefaults engine_defaults(const std::string& engine);
/// Lists the differences from the plainest defaults: "zero 3, sp megatron (with tp), recompute selective, overlap
/// grad,param"; "none" without any.
std::string to_string(const EngineDefaults& defaults);

/// Returns the overlaps that the configuration can use: sp needs tp, ZeRO and grad overlap need data ranks, and so
/// on. It only keeps overlaps that the engine's rules allow there. Degrees, schedule and the rest of the strategy
/// must be filled in.
Overlap usable_overlap(const Overlap& wanted, const EngineModel& engine, const Job& job, const Strategy& strategy,
                       const Schedule& schedule);

}  // namespace espalier::job
