// SPDX-License-Identifier: Apache-2.0
// Reads the traits of a group of nodes other than its device and links: {name, site, price_per_device_hour, nic,
// speed: {"node:3": 0.8, "rank:17": 0.5}}.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/cluster.h"

namespace espalier::cluster {

inline constexpr std::size_t kLongestGroupName = 64;

/// Returns the default names: "a", "b", … "z", then "g26", "g27", …
std::string usual_group_name(std::size_t place);

/// Reads the traits. `first_node` and `first_device` are the numbers of the group's first ones in the cluster, by
/// which `speed` names them. A device's own factor overrides its node's.
void read_traits(base::Reader& reader, std::int64_t first_node, std::int64_t first_device, NodeGroup& group);

/// Reads the key `name` of a group; the default if absent. Groups and sites share one set of names, since links join
/// either.
void read_group_name(base::Reader& reader, std::size_t place, NodeGroup& group);

/// Returns the names of all groups, then of all sites.
std::vector<std::string> names_of_ends(const Cluster& cluster);
/// Refuses two groups of one name, and a group with a site's name.
void check_names(base::Reader& reader, const Cluster& cluster);

}  // namespace espalier::cluster
