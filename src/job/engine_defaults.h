// SPDX-License-Identifier: Apache-2.0
// What an engine does when its user says nothing: ZeRO stage, sequence parallelism, recomputation and overlap, from the
// cited defaults of data/framework_defaults.yaml. An engine that is not listed there (generic) has 0, none, none, and
// the overlaps that it cannot switch off.
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
/// "zero 3, sp megatron (with tp), recompute selective, overlap grad,param": what differs from the plainest; "none" if
/// nothing does.
std::string to_string(const EngineDefaults& defaults);

/// Only what the configuration has something for: sp needs tp, ZeRO and grad overlap need data ranks, and so on; and of
/// overlaps only those that the engine's rules allow there. Degrees, schedule and the rest of the strategy must be
/// filled in.
Overlap usable_overlap(const Overlap& wanted, const EngineModel& engine, const Job& job, const Strategy& strategy,
                       const Schedule& schedule);

}  // namespace espalier::job
