// SPDX-License-Identifier: Apache-2.0
// Fits the links of a cluster to nccl-tests output. The fit starts from the known cluster and changes the
// coefficients of every level that the tables determine (src/calibrate/user_fabric.h). All others are unchanged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/calibrate.h"
#include "espalier/cluster.h"
#include "espalier/result.h"

namespace espalier {

/// Describes the machines on which nccl-tests ran, as the maximum over all tables.
struct TestedNodes {
  std::string device;  ///< reported by the first rank; empty: not reported
  std::int64_t nodes = 1, devices_per_node = 1;
};
/// Reads the machines from the outputs. Fails with bad_input without a table, or with tables of several kinds of
/// devices.
Result<TestedNodes> tested_nodes(const std::vector<NamedText>& outputs);

/// Holds a cluster with fitted links.
struct MeasuredFabric {
  Cluster cluster;
  std::vector<std::string> notes;  ///< the fitted coefficients and the quality of the fit
};
/// Fits the links of `cluster`, which must have equal nodes, at least as many and as large as those of every table.
Result<MeasuredFabric> measured_fabric(const Cluster& cluster, const std::vector<NamedText>& outputs);

}  // namespace espalier
