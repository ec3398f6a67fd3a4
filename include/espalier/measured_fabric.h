// SPDX-License-Identifier: Apache-2.0
// The links of a cluster as nccl-tests measured them: the coefficients of every level that the tables determine, fitted
// over what is known of the cluster (src/calibrate/user_fabric.h). What no table determines stays as it was.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/calibrate.h"
#include "espalier/cluster.h"
#include "espalier/result.h"

namespace espalier {

/// What nccl-tests say of the machines that they ran on: the most of all tables.
struct TestedNodes {
  std::string device;  ///< as the first rank reports it; empty: not said
  std::int64_t nodes = 1, devices_per_node = 1;
};
/// bad_input: no table, or tables of several kinds of devices.
Result<TestedNodes> tested_nodes(const std::vector<NamedText>& outputs);

struct MeasuredFabric {
  Cluster cluster;
  std::vector<std::string> notes;  ///< what was fitted, and how well
};
/// `cluster`: equal nodes, at least as many and as large as those of every table.
Result<MeasuredFabric> measured_fabric(const Cluster& cluster, const std::vector<NamedText>& outputs);

}  // namespace espalier
