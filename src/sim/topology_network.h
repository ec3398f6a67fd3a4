// SPDX-License-Identifier: Apache-2.0
// Makes a flow-level network of a topology: its capacities, its traces as changes of capacity, its token buckets.
#pragma once

#include "cluster/topology.h"
#include "sim/flow_network.h"

namespace espalier::sim {

/// Returns the network. Links have the ids of the topology; the traces begin at time 0.
FlowNetwork flow_network(const cluster::Topology& topology);

/// Returns the uses of a route, link by link, each with weight 1.
std::vector<solve::FlowLink> uses_of(const std::vector<cluster::LinkId>& route);

}  // namespace espalier::sim
