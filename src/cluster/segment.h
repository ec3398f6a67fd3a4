// SPDX-License-Identifier: Apache-2.0
// Segments of a job on fabric domains that join several nodes (NVL72: 18 trays of 4 devices).
//
// The groups of a job are powers of two more often than not and do not divide 72 devices, so that a job which fills
// such domains one after the other has groups that lie across a border. Schedulers therefore give a job the same number
// of nodes in each domain it uses: Slurm's topology/block plugin calls that number the segment (`--segment`). With n
// nodes and domains of D nodes
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

/// The default, see above. Both arguments are at least 1.
std::int64_t default_segment(std::int64_t nodes, std::int64_t domain_nodes);

/// `segment` of a cluster file; nullopt when absent.
std::optional<std::int64_t> read_segment(base::Reader& reader);

/// The segment of a group whose `nodes` and `domain_nodes` are known: `wanted`, or the default with a note.
std::int64_t choose_segment(base::Reader& reader, const NodeGroup& group, const std::string& domain,
                            std::optional<std::int64_t> wanted, std::vector<std::string>& notes);

/// A segment that was stated needs a group with a domain that it can speak of.
void check_segment(base::Reader& reader, const Cluster& cluster);

}  // namespace espalier::cluster
