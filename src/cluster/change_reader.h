// SPDX-License-Identifier: Apache-2.0
// Reads changes over time:
//   capacity: [{time_s, link, factor}, …, {link, token_bucket: {full, sustained, bucket}}, …, FILE, …], or one FILE, or
//             one mapping
//   events:   [{time_s, event, target, value}, …] or FILE.
// Times do not fall from row to row of one list or file; a target changes once at one time. The events must be
// consistent in sequence: a node that leaves is present, a node that joins is away.
#pragma once

#include "base/document.h"
#include "cluster/cluster_files.h"
#include "espalier/cluster.h"

namespace espalier::cluster {

inline constexpr std::size_t kMaxChanges = 100'000;

/// Reads the changes of a cluster whose other parts have been read.
void read_changes(base::Reader& reader, const ClusterFiles& files, Cluster& cluster);

}  // namespace espalier::cluster
