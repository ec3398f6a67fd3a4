// SPDX-License-Identifier: Apache-2.0
// Reads links between groups and sites: as a list, as a matrix, or made where network interfaces differ.
// join_reader.h defines when.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/document.h"
#include "cluster/cluster_files.h"
#include "espalier/cluster.h"

namespace espalier::cluster {

inline constexpr std::size_t kMaxLinks = 16'384;

void read_links(base::Reader& reader, Cluster& cluster);
void read_matrix(base::Reader& reader, const ClusterFiles& files, Cluster& cluster);
/// Returns whether all pairs of groups have a kind of network interface in common, as far as known.
bool all_nics_meet(const Cluster& cluster);
/// Adds a link for each ordered pair of groups; notes name those that use the fallback.
void link_by_nics(base::Reader& reader, Cluster& cluster);

/// Returns the two names in "a-b", where names may contain dashes. Returns nullopt unless exactly one split has both
/// among `names`.
std::optional<std::pair<std::string, std::string>> pair_of(std::string_view text, const std::vector<std::string>& names);

}  // namespace espalier::cluster
