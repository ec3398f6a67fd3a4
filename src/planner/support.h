// SPDX-License-Identifier: Apache-2.0
// Whether a plan has a price: the one place that refuses what cannot be priced, timed or checked, before anything is
// computed from it.
//
//   unsupported          parts of the document that have no cost (espalier/plan.h)
//   not measured         an operator of which a profile in force has no time
//   devices outside      a device that the cluster does not have
//   placement            equal devices in an order in which groups of one kind lie unlike each other, of a plan that
//                        cannot be priced by stage
//   operator partition   on stages that are priced one by one; under the model's blocks as they are, a partition that
//                        does not fit them
//   rules of plans       plan_violations (plan/plan_rules.h)
//   unequal replicas     under the flow network, which does not know what their ranks send
#pragma once

#include "espalier/job.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

/// The first reason why `plan` has no price under the job and engine; nothing: it has one.
Status support(const Job& job, const EngineModel& engine, const Plan& plan);

}  // namespace espalier::planner
