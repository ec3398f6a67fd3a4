// SPDX-License-Identifier: Apache-2.0
// Links between groups and sites: as a list, as a matrix, or made where network interfaces differ; join_reader.h says
// when.
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
/// Whether each two groups have a kind of network interface in common, as far as is known.
bool all_nics_meet(const Cluster& cluster);
/// A link for each ordered pair of groups; notes name those that fall back.
void link_by_nics(base::Reader& reader, Cluster& cluster);

/// The two names in "a-b", where names may hold dashes themselves; nullopt when no or more than one way of reading it
/// has both among `names`.
std::optional<std::pair<std::string, std::string>> pair_of(std::string_view text, const std::vector<std::string>& names);

}  // namespace espalier::cluster
