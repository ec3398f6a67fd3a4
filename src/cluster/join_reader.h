// SPDX-License-Identifier: Apache-2.0
// Reads the joins of unlike groups of nodes, and the cost of traffic between them. One of
//   inter_group: {bandwidth (of one NIC), nics_per_node, latency, …}      one level over all groups
//   links: [{from, to, bandwidth, latency, sharing, both}, …]             directed, between groups or sites
//   matrix: rows of {from, to, gbps, delay_ms}                            directed, a figure for each pair;
//                                                                         gbps 0: no link
//   nothing                                                               the slowest of the groups' own networks.
// Further keys are `sharing: line | node | node_pair` (LinkSharing; default: line for links, node_pair for a matrix),
// `egress_price_per_GB: {a-b: 0.05}` and `currency`.
//
// If nothing is stated and two groups have no kind of network interface in common (`nic`), they use the catalogue's
// fallback, Ethernet, each node at that rate. The other pairs use the slower of both nodes' interfaces. All of this
// becomes links, with a note.
#pragma once

#include <vector>

#include "base/document.h"
#include "cluster/cluster_files.h"
#include "cluster/group_reader.h"
#include "espalier/cluster.h"

namespace espalier::cluster {

/// Fills Cluster::inter and Cluster::links for a cluster with several groups that have been read.
void read_joints(base::Reader& reader, const ClusterFiles& files, const std::vector<GroupDraft>& drafts, Cluster& cluster);
/// Refuses keys that require several groups.
void refuse_joints(base::Reader& reader);
/// Reads egress_price_per_GB and currency.
void read_prices(base::Reader& reader, Cluster& cluster);

}  // namespace espalier::cluster
