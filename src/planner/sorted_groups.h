// SPDX-License-Identifier: Apache-2.0
// Sorts the node groups of a cluster independently of the cluster file. The search runs on the sorted cluster, so
// that the order in the file does not change the answer. Groups are sorted by their properties (devices, nodes,
// memory, networks), equal ones by name.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/job.h"
#include "search/phases.h"

namespace espalier::planner {

struct SortedGroups {
  std::vector<std::size_t> place;     ///< index in the file of each sorted group
  std::vector<std::int64_t> devices;  ///< number in the file of each device of the sorted cluster
  bool as_in_file = true;
};
SortedGroups sorted_groups(const Cluster& cluster);

/// Returns the job on the sorted cluster. Requires a cluster that does not change over time: targets of changes refer
/// to devices by number.
Job sorted_job(const Job& job, const SortedGroups& order);

/// Moves plans found on the sorted cluster to the devices of the file's cluster.
void to_file_order(const SortedGroups& order, search::SearchResult& found);
void to_file_order(const SortedGroups& order, Plan& plan);

}  // namespace espalier::planner
