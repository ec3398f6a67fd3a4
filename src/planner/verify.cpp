// SPDX-License-Identifier: Apache-2.0
#include "planner/verify.h"

#include "check/check.h"
#include "planner/plan_claims.h"

namespace espalier::planner {

Status verify(const Job& job, const EngineModel& engine, const Plan& plan, const Timed& timed) {
  const check::Claims claims = claims_of(job, engine, timed);
  const CheckReport report = check::check_plan(plan, job.model, job.cluster, timed.program, &claims, job.engine_model.get());
  for (const Finding& f : report.findings)
    if (!f.ok)
      return Error{ErrorKind::internal, "check", f.name + ": " + f.text, "a plan that the independent checker accepts",
                   "please report"};
  return {};
}

}  // namespace espalier::planner
