// SPDX-License-Identifier: Apache-2.0
// The rows of Galvatron's formats: its strategy file both ways, and its profile files, from which the best plan by its
// own costs is made.
#pragma once

#include <optional>
#include <string>

#include "espalier/exchange.h"
#include "galvatron/profiled_planner.h"

namespace espalier::exchange {

Importer galvatron_strategy();
Importer galvatron_profile();
Exporter galvatron_export();

/// The best plan of Galvatron's space by Galvatron's costs, and what it is as a plan of the job.
struct ProfiledImport {
  galvatron::ProfiledPlan found;
  Result<Plan> plan;  ///< the error: a plan cannot say it
};
/// The request of galvatron_profile(). infeasible: nothing fits.
Result<ProfiledImport> plan_by_profile(const ImportRequest& request);

}  // namespace espalier::exchange
