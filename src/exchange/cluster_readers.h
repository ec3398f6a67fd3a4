// SPDX-License-Identifier: Apache-2.0
// Declares the formats that clusters are read from, one per file, and the host lists that Slurm's formats share.
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

/// Expands "node[01-16,20],gpu[1-2]-[0-3]" to names in the order of the list. Zero padding is kept, and several
/// brackets give every combination. At most a million names are returned; `where` names the place in errors.
Result<std::vector<std::string>> expand_hosts(std::string_view list, const std::string& where);

}  // namespace espalier::exchange
