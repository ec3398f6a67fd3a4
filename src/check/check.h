// SPDX-License-Identifier: Apache-2.0
// An independent, dull, complete check of a finished plan. Shares no code with cost/, search/ or sim/: everything is
// derived again from the model, the cluster and the plan with simple arithmetic of its own.
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

/// What the planner claims about the plan; the check recomputes each and compares. Per stage / per pipeline chunk.
struct Claims {
  std::int64_t iteration_ns = 0;
  std::vector<std::int64_t> static_bytes_per_stage;    ///< parameters + gradients + optimizer states
  std::vector<std::int64_t> saved_bytes_per_chunk;     ///< for one micro-batch
  std::vector<std::int64_t> boundary_bytes_per_chunk;  ///< p2p message entering each pipeline chunk (0 for the first),
                                                       ///< per rank
  std::vector<std::int64_t>
      gradient_bytes_per_stage;  ///< bytes a rank puts into gradient reduction (its full dense+expert gradient on the
                                 ///< wire)
  std::vector<std::int64_t> peak_bytes_per_stage;
  std::int64_t memory_limit_bytes = 0;
  /// Of stages whose ranks are not all alike (rank_kinds.h): the claims of each kind. Empty: all ranks of a stage are
  /// alike.
  std::vector<Claims> kinds;
};

/// What must hold before a plan can be lowered or priced: its structure (structure.h, pipelines.h), then the rules of
/// the space. Holds for any plan that plan_from_json reads. `engine`: as below.
CheckReport check_sound(const Plan& plan, const Model& model, const Cluster& cluster, const EngineModel* engine = nullptr);

/// `program` is the plan's own structure; `claims` may be null (structure only). `engine`: coefficients and measured
/// times in force (a calibration, a profile); null: those that ship for the plan's engine.
CheckReport check_plan(const Plan& plan, const Model& model, const Cluster& cluster, const Program& program, const Claims* claims,
                       const EngineModel* engine = nullptr);

}  // namespace espalier::check
