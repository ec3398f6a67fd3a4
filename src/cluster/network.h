// SPDX-License-Identifier: Apache-2.0
// Makes the levels of the fabric above the node from a NetworkSpec.
//
//   per device and direction, all active:  nics · bandwidth / devices_per_node        (NICs are shared)
//   alone:                                 one NIC, or the share if a device owns several
//   above a pod of `pod_nodes` nodes:      the share / oversubscription; with no pod stated, everywhere.
// Rail-optimised networks join the k-th NICs of all nodes of a pod under one switch; the share of a device is the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/catalogue.h"
#include "espalier/cluster.h"

namespace espalier::cluster {

/// Returns the levels. `below`: devices of the largest domain under the network (a node, or an NVLink domain of
/// several nodes). Spans are multiples of it; the outermost reaches at least `nodes · devices_per_node`.
std::vector<FabricLevel> network_levels(const NetworkSpec& network, std::int64_t nodes, std::int64_t devices_per_node,
                                        std::int64_t below);

}  // namespace espalier::cluster
