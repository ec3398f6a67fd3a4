// SPDX-License-Identifier: Apache-2.0
// Builds the table that policy.h decides on, for a job on a changing cluster: epochs, plans, the loss of each plan in
// each epoch, and the cost of every move.
//
// The best plan of every different state of the cluster is a candidate. At most the requested number is kept. Each
// next plan is the one that saves most where all chosen ones are slower.
//
// The nodes that a plan takes depend on the trace alone: those that it had and that are still present, then the
// healthy ones, by number. When nodes under it leave, others take their place if there are enough. Until there are,
// it cannot run.
#pragma once

#include <cstdint>
#include <vector>

#include "adapt/policy.h"
#include "espalier/planner.h"

namespace espalier::adapt {

struct TracePlans {
  std::vector<PlannerResult> plans;
  std::vector<std::vector<std::int64_t>> nodes_by_group;  ///< by plan and group
  std::vector<std::vector<double>> rates;                 ///< [epoch][plan], samples per second; 0: it cannot run
  double best_rate = 0;                                   ///< the best of all rates
  std::int64_t states = 0;                                ///< number of different states of the cluster
  double checkpoint_age_s = 0;
  Epochs epochs;
};
Result<TracePlans> trace_table(const Job& job, const OverTimeOptions& options);

}  // namespace espalier::adapt
