// SPDX-License-Identifier: Apache-2.0
// What a PlannerMemory holds: records of finished searches (search/search_record.h), each with the job that was
// searched, on its cluster with the memory margin taken off. A record serves a later search if nothing but links and
// memory limit differ, and the limit is not higher:
// floors say what the configurations that fit take, and under a higher limit more of them fit.
#pragma once

#include <optional>
#include <vector>

#include "espalier/planner.h"
#include "search/search.h"

namespace espalier {

struct PlannerMemory::Content {
  struct Remembered {
    Job job;  ///< as searched
    search::SearchRecord record;
  };
  std::vector<Remembered> searches;  ///< the latest last
};

}  // namespace espalier

namespace espalier::planner {

/// The record from which a search of `room` may carry most over; stays valid until remember(). Nothing: none.
std::optional<search::Carried> carried_for(PlannerMemory* memory, const Job& room);
/// Where no record carries anything over (other nodes or devices, more memory): the fastest configurations of the
/// latest search of the same model and engine, with as much data parallelism as the devices now allow. Good starts
/// often, and never more than that.
std::vector<search::Configuration> seeds_for(PlannerMemory* memory, const Job& room);
/// Keeps a record, in place of one of the same cluster or of the oldest. Without a memory, or without a record: does
/// nothing.
void remember(PlannerMemory* memory, const Job& room, std::optional<search::SearchRecord> record);

}  // namespace espalier::planner
