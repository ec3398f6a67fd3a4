// SPDX-License-Identifier: Apache-2.0
// A job on a cluster that changes, as the table that policy.h decides on: epochs, plans, what each loses in each epoch
// and what every move costs.
//
// The best plan of every different state of the cluster is a candidate; at most so many as are asked for are kept, one
// after the other that which saves most where all that were chosen do worse. Which nodes a plan takes is a function of
// the trace alone: those that it had and that are still there, then the healthy ones, by number. When nodes under it
// leave, others take their place where there are enough; until there are, it cannot run.
#pragma once

#include <cstdint>
#include <vector>

#include "adapt/policy.h"
#include "espalier/planner.h"

namespace espalier::adapt {

struct TracePlans {
  std::vector<PlannerResult> plans;
  std::vector<std::vector<std::int64_t>> nodes_by_group;  ///< of each plan
  std::vector<std::vector<double>> rates;                 ///< [epoch][plan], samples per second; 0: it cannot run
  double best_rate = 0;                                   ///< of all
  std::int64_t states = 0;                                ///< different ones of the cluster
  double checkpoint_age_s = 0;
  Epochs epochs;
};
Result<TracePlans> trace_table(const Job& job, const OverTimeOptions& options);

}  // namespace espalier::adapt
