// SPDX-License-Identifier: Apache-2.0
// Checks a finished plan independently and completely. The check shares no code with cost/, search/ or sim/. It
// derives everything again from the model, the cluster and the plan with simple arithmetic of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/findings.h"
#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"
#include "plan/program.h"

namespace espalier::check {

/// Holds the planner's claims about a plan, per stage or per pipeline chunk. The check recomputes each value and
/// compares.
struct Claims {
  std::int64_t iteration_ns = 0;
  std::vector<std::int64_t> static_bytes_per_stage;  ///< parameters + gradients + optimizer states
  std::vector<std::int64_t> saved_bytes_per_chunk;   ///< for one micro-batch
  /// Holds the bytes per rank of the message that enters each pipeline chunk (0 for the first).
  std::vector<std::int64_t> boundary_bytes_per_chunk;
  std::vector<std::int64_t> gradient_bytes_per_stage;  ///< full dense + expert gradient that a rank reduces, on the wire
  std::vector<std::int64_t> peak_bytes_per_stage;
  std::int64_t memory_limit_bytes = 0;
  /// Holds the claims of each kind of rank for stages whose ranks differ (rank_kinds.h). Empty: all ranks of a stage
  /// are alike.
  std::vector<Claims> kinds;
};

/// Checks what must hold before a plan can be lowered or priced: its structure (plan_structure.h, pipelines.h), then
/// the rules of the space. Accepts any plan that plan_from_json reads. `engine` is as below.
CheckReport check_sound(const Plan& plan, const Model& model, const Cluster& cluster, const EngineModel* engine = nullptr);

/// Checks a plan against `program`, its lowered form. `claims` may be null: then only the structure is checked.
/// `engine` holds the coefficients and measured times in force (a calibration, a profile). Null: the values shipped
/// for the plan's engine.
CheckReport check_plan(const Plan& plan, const Model& model, const Cluster& cluster, const Program& program, const Claims* claims,
                       const EngineModel* engine = nullptr);

}  // namespace espalier::check
