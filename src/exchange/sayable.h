// SPDX-License-Identifier: Apache-2.0
// What of a plan an engine can be told. Faults are the rules that the plan breaks: of the engine (plan/engine_rules.cpp), of the format, and of
// launchers of equal nodes. Each names the rule, the values and what would be legal; some know how to leave the thing out.
//
// Leaving out is one step after another until no rule is broken. A step changes what an engine has a substitute for (a schedule, a ZeRO stage, an
// order of ranks, recomputation, overlap, layers with strategies of their own), never the degrees of parallelism, the batch or the devices: a plan
// with other degrees is another plan, which `plan --engine` finds.
#pragma once

#include <string>
#include <vector>

#include "espalier/exchange.h"

namespace espalier::exchange {

/// Every fault of the plan in the format, those of the engine first.
std::vector<ExportFault> faults_of(const Exporter& format, const Job& job, const Plan& plan);

struct SayablePlan {
  Plan plan;
  std::vector<std::string> lost;  ///< "MEG-ZERO: megatron-core does not run zero 3: written as zero 1"
};
/// The plan itself where it has no faults; with allow_lossy the plan that is left. check_failed: faults, all named, and who can run the plan.
Result<SayablePlan> sayable(const Exporter& format, const Job& job, const Plan& plan, bool allow_lossy);

/// "galvatron, espalier" and, of each other exporter, the rules that forbid it: "megatron-core (MEG-LAYERS), torchtitan (TT-LAYERS)".
struct WhoRuns {
  std::string can, cannot;
};
WhoRuns who_runs(const Job& job, const Plan& plan);

}  // namespace espalier::exchange
