// SPDX-License-Identifier: Apache-2.0
// The formats that clusters are read from, one a file, and the host lists that Slurm's have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/imported_cluster.h"

namespace espalier::exchange {

ClusterFormat nvidia_smi_topo();
ClusterFormat nccl_topology();
ClusterFormat slurm_hosts();
ClusterFormat slurm_topology();
ClusterFormat rocm_smi_topo();

/// "node[01-16,20],gpu[1-2]-[0-3]" -> names in the order of the list: zero padding is kept, several brackets are every
/// combination. At most a million names; `where` names the place.
Result<std::vector<std::string>> expand_hosts(std::string_view list, const std::string& where);

}  // namespace espalier::exchange
