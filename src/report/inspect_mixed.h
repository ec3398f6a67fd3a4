// SPDX-License-Identifier: Apache-2.0
// What `inspect cluster` says of mixed, shared and changing clusters beside devices and levels: nothing of a cluster
// that is none of it.
#pragma once

#include <string>

#include "base/document.h"
#include "espalier/cluster.h"

namespace espalier::report {

/// Returns "a: "; empty where the cluster has one group.
std::string group_prefix(const Cluster& cluster, const NodeGroup& group);
/// ", site east, 3.20 USD a device and hour, infiniband".
std::string traits_of(const Cluster& cluster, std::size_t group);
/// Devices unlike their kind, links, prices, and what changes over time; each a section of its own.
std::string mixed_sections(const Cluster& cluster);
/// The same as members of the summary: speed, links, egress, currency, capacity, token_buckets, events; absent where
/// there is nothing.
void write_mixed(base::JsonWriter& w, const Cluster& cluster);
/// Members of a group: name, site, price, nics, node_bandwidth.
void write_traits(base::JsonWriter& w, const Cluster& cluster, std::size_t group);

}  // namespace espalier::report
