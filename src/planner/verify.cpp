// SPDX-License-Identifier: Apache-2.0
#include "planner/verify.h"

#include "check/check.h"
#include "planner/claims.h"

namespace espalier::planner {

Status verify(const Job& job, const Plan& plan, const Program& program) {
  const auto claims = claims_of(job, plan);
  if (!claims) return claims.error();
  const CheckReport report = check::check_plan(plan, job.model, job.cluster, program, &*claims, job.engine_model.get());
  for (const Finding& f : report.findings)
    if (!f.ok)
      return Error{ErrorKind::internal, "check", f.name + ": " + f.text, "a plan that the independent checker accepts",
                   "please report"};
  return std::nullopt;
}

}  // namespace espalier::planner
