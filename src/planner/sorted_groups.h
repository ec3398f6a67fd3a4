// SPDX-License-Identifier: Apache-2.0
// A cluster with its node groups in an order that the cluster file does not decide: the search runs on it, so that the
// answer is the same however the file lists the groups. Groups are sorted by what they are (devices, nodes, memory,
// networks), equal ones by name.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/job.h"
#include "search/phases.h"

namespace espalier::planner {

struct SortedGroups {
  std::vector<std::size_t> place;     ///< in the file, of each sorted group
  std::vector<std::int64_t> devices;  ///< in the file, of each device of the sorted cluster
  bool as_in_file = true;
};
SortedGroups sorted_groups(const Cluster& cluster);

/// The job on the sorted cluster. Needs a cluster that does not change over time: targets of changes name devices by
/// number.
Job sorted_job(const Job& job, const SortedGroups& order);

/// Plans found on the sorted cluster, on the devices of the file's.
void to_file_order(const SortedGroups& order, search::SearchResult& found);
void to_file_order(const SortedGroups& order, Plan& plan);

}  // namespace espalier::planner
