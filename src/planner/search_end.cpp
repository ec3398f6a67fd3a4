// SPDX-License-Identifier: Apache-2.0
// Names the ways in which a search can end, for results and answers.
#include "espalier/planner.h"

namespace espalier {

std::string_view to_string(SearchEnd end) {
  switch (end) {
    case SearchEnd::none: return "";
    case SearchEnd::optimal: return "optimal";
    case SearchEnd::gap: return "gap";
    case SearchEnd::node_limit: return "node limit";
    case SearchEnd::time_limit: return "time limit";
    case SearchEnd::interrupted: return "interrupted";
    case SearchEnd::phase_left_out: return "phase left out";
  }
  return "?";
}

std::optional<SearchEnd> search_end_of(std::string_view words) {
  for (const SearchEnd end : {SearchEnd::none, SearchEnd::optimal, SearchEnd::gap, SearchEnd::node_limit, SearchEnd::time_limit,
                              SearchEnd::interrupted, SearchEnd::phase_left_out})
    if (to_string(end) == words) return end;
  return std::nullopt;
}

}  // namespace espalier
