// SPDX-License-Identifier: Apache-2.0
// What joins unlike groups of nodes, and what traffic between them costs. One of
//   inter_group: {bandwidth (of one NIC), nics_per_node, latency, …}      one level over all groups
//   links: [{from, to, bandwidth, latency, sharing, both}, …]            directed, between groups or sites
//   matrix: rows of {from, to, gbps, delay_ms}                            directed, a figure for each pair; gbps 0: no link
//   nothing                                                               the slowest of the groups' own networks
// and beside it `sharing: line | node | node_pair` (LinkSharing; default: line for links, node_pair for a matrix),
// `egress_price_per_GB: {a-b: 0.05}`
// and `currency`.
//
// Where nothing is said and two groups have no kind of network interface in common (`nic`), they talk over the fallback
// of the catalogue, Ethernet, each node at that rate; the other pairs at the slower of both nodes' interfaces. All of
// this becomes links, with a note.
#pragma once

#include <vector>

#include "base/document.h"
#include "cluster/cluster_files.h"
#include "cluster/group_reader.h"
#include "espalier/cluster.h"

namespace espalier::cluster {

/// For a cluster whose groups are read, several of them: fills Cluster::inter and Cluster::links.
void read_joints(base::Reader& reader, const ClusterFiles& files, const std::vector<GroupDraft>& drafts, Cluster& cluster);
/// Refuses what only several groups can have.
void refuse_joints(base::Reader& reader);
/// egress_price_per_GB and currency.
void read_prices(base::Reader& reader, Cluster& cluster);

}  // namespace espalier::cluster
