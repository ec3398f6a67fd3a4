// SPDX-License-Identifier: Apache-2.0
// A flow-level network over a topology: its capacities, its traces as changes of capacity, its token buckets.
#pragma once

#include "cluster/topology.h"
#include "sim/flow_network.h"

namespace espalier::sim {

/// Links have the ids of the topology; the traces begin at time 0.
FlowNetwork flow_network(const cluster::Topology& topology);

/// Link by link, each with weight 1.
std::vector<solve::FlowLink> uses_of(const std::vector<cluster::LinkId>& route);

}  // namespace espalier::sim
