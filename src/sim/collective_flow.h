// SPDX-License-Identifier: Apache-2.0
// A collective on a topology as one flow: how many bytes it leaves on each link.
//
// Members in device order; domains are the parts of them that need no network between nodes (Topology::network_domain);
// n_i members in domain i, M bytes that each rank passes on (cost/collective.h: S·(g−1)/g of an all-gather, twice that
// of an all-reduce).
//     ring        as NCCL: max n_i rings, each through all members domain by domain, ring r entering a domain at member
//                 r and leaving it
//                 at the one before; every hop carries M / rings. A NIC carries M/n, a trunk M, a port inside a node
//                 M·(1 − 1/n)
//     exchange    all-to-all of S bytes a rank: S/g on the route of each ordered pair
// The hops advance together, so one flow stands for all. Its byte is one on the first link from the first member to
// another domain (to the next member, if there is one domain): what a message of that device would share with it.
// Direct links of a mesh are left out of rings, which NCCL spreads over all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/topology.h"
#include "sim/flow_network.h"

namespace espalier::sim {

/// `members`: devices, rising. No uses for groups of one.
Flow ring_flow(const cluster::Topology& topology, const std::vector<std::int64_t>& members, double passed_on);
Flow exchange_flow(const cluster::Topology& topology, const std::vector<std::int64_t>& members, double bytes);

}  // namespace espalier::sim
