// SPDX-License-Identifier: Apache-2.0
// Declares Galvatron's formats: its strategy file in both directions, and its profile files, from which the best plan
// by its own costs is made.
#pragma once

#include <optional>
#include <string>

#include "espalier/exchange.h"
#include "galvatron/profiled_planner.h"

namespace espalier::exchange {

Importer galvatron_strategy();
Importer galvatron_profile();
Exporter galvatron_export();

/// Holds the best plan of Galvatron's space by Galvatron's costs, and the same as a plan of the job.
struct ProfiledImport {
  galvatron::ProfiledPlan found;
  Result<Plan> plan;  ///< an error where a plan cannot express it
};
/// Runs the request of galvatron_profile(). Fails (infeasible) where nothing fits.
Result<ProfiledImport> plan_by_profile(const ImportRequest& request);

}  // namespace espalier::exchange
