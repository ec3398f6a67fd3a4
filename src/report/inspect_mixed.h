// SPDX-License-Identifier: Apache-2.0
// Writes the output of `inspect cluster` on mixed, shared and changing clusters, in addition to devices and levels.
// It is empty for other clusters.
#pragma once

#include <string>

#include "base/document.h"
#include "espalier/cluster.h"

namespace espalier::report {

/// Returns "a: "; empty where the cluster has one group.
std::string group_prefix(const Cluster& cluster, const NodeGroup& group);
/// Returns ", site east, 3.20 USD a device and hour, infiniband".
std::string traits_of(const Cluster& cluster, std::size_t group);
/// Writes devices unlike their kind, links, prices, and changes over time, each in a separate section.
std::string mixed_sections(const Cluster& cluster);
/// Writes these as members of the summary: speed, links, egress, currency, capacity, token_buckets, events; absent
/// where there is nothing.
void write_mixed(base::JsonWriter& w, const Cluster& cluster);
/// Writes members of a group: name, site, price, nics, node_bandwidth.
void write_traits(base::JsonWriter& w, const Cluster& cluster, std::size_t group);

}  // namespace espalier::report
