// SPDX-License-Identifier: Apache-2.0
// Represents a collective on a topology as one flow: the bytes that it puts on each link.
//
// Members are in device order. Domains are groups of members that need no network between nodes
// (Topology::network_domain). Domain i has n_i members. Each rank passes on M bytes (cost/collective.h: S·(g−1)/g for
// an all-gather, twice that for an all-reduce).
//     ring        as NCCL: max n_i rings, each through all members domain by domain. Ring r enters a domain at member r
//                 and leaves it at the one before; every hop carries M / rings. A NIC carries M/n, a trunk M, a port
//                 inside a node M·(1 − 1/n).
//     exchange    all-to-all of S bytes a rank: S/g on the route of each ordered pair
// The hops advance together, so one flow represents all. A byte of the flow is a byte on the first link from the first
// member to another domain (to the next member, if there is one domain). A message of that device would share this
// link. Rings leave out direct links of a mesh, since NCCL spreads rings over all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/topology.h"
#include "sim/flow_network.h"

namespace espalier::sim {

/// Return the flow of a collective. `members` are devices in ascending order. Groups of one use no links.
Flow ring_flow(const cluster::Topology& topology, const std::vector<std::int64_t>& members, double passed_on);
Flow exchange_flow(const cluster::Topology& topology, const std::vector<std::int64_t>& members, double bytes);

}  // namespace espalier::sim
