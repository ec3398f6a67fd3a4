// SPDX-License-Identifier: Apache-2.0
// Stores the content of a PlannerMemory: records of finished searches (search/search_record.h). Each record comes
// with the job that was searched, on its cluster with the memory margin subtracted. A record serves a later search if
// only links and memory limit differ, and the limit is not higher. Its floors describe the configurations that fit,
// and a higher limit admits further ones.
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

/// Returns the record from which a search of `room` can carry over most; nullopt if there is none. It stays
/// valid until remember().
std::optional<search::Carried> carried_for(PlannerMemory* memory, const Job& room);
/// Returns starts for a search to which no record carries over, because nodes or devices differ or memory grew. These
/// are the fastest configurations of the latest search of the same model and engine. Data parallelism takes as many
/// devices as are now available. The starts are often good, but nothing is proven about them.
std::vector<search::Configuration> seeds_for(PlannerMemory* memory, const Job& room);
/// Stores a record in place of one of the same cluster or of the oldest. Does nothing without a memory or a record.
void remember(PlannerMemory* memory, const Job& room, std::optional<search::SearchRecord> record);

}  // namespace espalier::planner
