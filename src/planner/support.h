// SPDX-License-Identifier: Apache-2.0
// Decides whether a plan has a price. Only this module rejects plans that cannot be priced, timed or checked, before
// anything is computed from them.
//
//   unsupported          parts of the document that have no cost (espalier/plan.h)
//   not measured         an operator for which a profile in force has no time
//   devices outside      a device that the cluster does not have
//   placement            equal devices in an order in which groups of one kind differ in placement,
//                        in a plan that cannot be priced by stage
//   operator partition   on stages that are priced one by one; elsewhere, a partition that does not fit
//                        the model's blocks
//   rules of plans       plan_violations (plan/plan_rules.h)
//   unequal replicas     under the flow network, which does not model what their ranks send
#pragma once

#include "espalier/job.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

/// Returns the first reason why `plan` has no price under the job and engine; nothing if it has one.
Status support(const Job& job, const EngineModel& engine, const Plan& plan);

}  // namespace espalier::planner
