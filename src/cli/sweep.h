// SPDX-License-Identifier: Apache-2.0
// Implements plan --sweep: the job is planned for every combination of values of some settings.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace espalier::cli {

struct SweepFlags {
  /// Each is a setting and its values, "cluster.nodes=1,2,4". The names nodes, devices, batch, sequence and engine
  /// are short for their paths.
  std::vector<std::string> axes;
  std::string csv;
};
int run_sweep(Context& context, const JobFlags& job, const SweepFlags& sweep, const PlannerOptions& options, NetworkKind network,
              const OutputFlags& output);

}  // namespace espalier::cli
