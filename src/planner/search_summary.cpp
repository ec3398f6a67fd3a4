// SPDX-License-Identifier: Apache-2.0
// Names the ways in which a search can end, and sums up the work of its phases.
#include "espalier/search_summary.h"

#include <algorithm>

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

const PhaseSummary* SearchSummary::counted(SearchCounter counter) const {
  const auto found =
      std::find_if(phases.rbegin(), phases.rend(), [&](const PhaseSummary& p) { return p.counters.contains(counter); });
  return found == phases.rend() ? nullptr : &*found;
}

std::int64_t SearchSummary::count(SearchCounter counter, std::initializer_list<std::string_view> of) const {
  std::int64_t sum = 0;
  for (const PhaseSummary& phase : phases)
    if (std::find(of.begin(), of.end(), phase.name) != of.end()) sum += count_of(phase.counters, counter);
  return sum;
}

std::int64_t SearchSummary::best_ns(std::initializer_list<std::string_view> of) const {
  std::int64_t best = 0;
  for (const PhaseSummary& phase : phases) {
    if (phase.best_ns == 0 || std::find(of.begin(), of.end(), phase.name) == of.end()) continue;
    best = best == 0 ? phase.best_ns : std::min(best, phase.best_ns);
  }
  return best;
}

bool covers_layers(const SearchSummary& search) { return search.counted(SearchCounter::strategies) != nullptr; }
bool covers_partitions(const SearchSummary& search) { return search.counted(SearchCounter::partitions) != nullptr; }
bool covers_groups(const SearchSummary& search) {
  return search.counted(SearchCounter::options) != nullptr || search.counted(SearchCounter::configurations) != nullptr;
}

std::int64_t best_uniform_ns(const SearchSummary& search) { return search.best_ns({kUniformPhase}); }
std::int64_t best_without_partitions_ns(const SearchSummary& search) { return search.best_ns({kUniformPhase, kLayersPhase}); }

}  // namespace espalier
