// SPDX-License-Identifier: Apache-2.0
// Chooses segments of a job on fabric domains that join several nodes (NVL72: 18 trays of 4 devices).
//
// The groups of a job are mostly powers of two and do not divide 72 devices. A job that fills such domains one after
// the other therefore has groups across a border. Schedulers give a job the same number of nodes in each domain it
// uses: Slurm's topology/block plugin calls that number the segment (`--segment`). With n nodes and domains of D nodes
//     n ≤ D            the segment is n: one domain holds the job.
//     otherwise        the largest divisor s of n with D/2 ≤ s ≤ D: n/s domains of s nodes each (n = 64, D = 18: 16).
//     no such divisor  the segment is D: domains are filled in order and the last one holds the rest.
// The level of the domain then spans s · devices_per_node devices. The segment belongs to the cluster: all candidates
// share it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/cluster.h"

namespace espalier::cluster {

/// Returns the default defined above. Both arguments must be at least 1.
std::int64_t default_segment(std::int64_t nodes, std::int64_t domain_nodes);

/// Reads `segment` of a cluster file; nullopt if absent.
std::optional<std::int64_t> read_segment(base::Reader& reader);

/// Returns the segment of a group whose `nodes` and `domain_nodes` are known: `wanted`, or the default with a note.
std::int64_t choose_segment(base::Reader& reader, const NodeGroup& group, const std::string& domain,
                            std::optional<std::int64_t> wanted, std::vector<std::string>& notes);

/// Checks that a stated segment applies to a group with a domain.
void check_segment(base::Reader& reader, const Cluster& cluster);

}  // namespace espalier::cluster
