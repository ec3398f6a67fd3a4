// SPDX-License-Identifier: Apache-2.0
// Describes a search: what was asked, what each phase did, why it ended, and its certificate.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/search_phases.h"
#include "espalier/search_space.h"

namespace espalier {

/// Holds the inputs of a search, so that a result can be searched again.
struct SearchRequest {
  SearchSpace space;
  std::optional<std::int64_t> node_limit;
  std::vector<std::string> disabled_rules;
  bool exhaustive = false;
  int alternatives = 5;
  std::vector<std::string> left_out_phases = {};
  bool simple = false;  ///< the simplest plan was the answer
  bool engines = false;
  bool restriction = false;
  double simple_within = 0.01;
  bool engine_options = false;
};

/// Describes one partition of a layer-wise answer's layers over its stages, with the best strategies for it.
struct StageBalance {
  std::string name;                 ///< "even", "time-balanced", "memory-balanced", "bi-objective", "exact"
  std::vector<std::int32_t> first;  ///< first layer of each stage
  double alpha_t = 0, alpha_m = 0;  ///< 1 − largest share of a stage in time, in memory; at most 1 − 1/stages
  std::int64_t iteration_ns = 0;    ///< simulated; 0: does not fit
};

/// Records why a search ended.
enum class SearchEnd : std::uint8_t {
  none,            ///< nothing was searched: one given configuration
  optimal,         ///< the whole space is covered, and nothing in it is faster
  gap,             ///< the whole space is covered; a bound limits how much faster a plan could be
  node_limit,      ///< the requested number of nodes was reached
  time_limit,      ///< the requested number of seconds was reached
  interrupted,     ///< stopped by a signal
  phase_left_out,  ///< a phase was left out by name
};
constexpr bool searched(SearchEnd end) { return end != SearchEnd::none; }
/// Returns whether the whole space is covered.
constexpr bool is_whole(SearchEnd end) { return end == SearchEnd::optimal || end == SearchEnd::gap; }
/// Returns whether another run may end elsewhere.
constexpr bool ended_by_clock(SearchEnd end) { return end == SearchEnd::time_limit || end == SearchEnd::interrupted; }
/// Returns "", "optimal", "gap", "node limit", "time limit", "interrupted" or "phase left out".
std::string_view to_string(SearchEnd end);
std::optional<SearchEnd> search_end_of(std::string_view words);

/// Holds the certificate of a search and counts its work.
struct SearchSummary {
  /// Counts the legal configurations (an exact integer below 2^53).
  double space_size = 0;
  std::map<std::string, std::map<std::int64_t, double>> by_dimension;  ///< "pp" -> value -> configurations
  std::int64_t bounded = 0;                                            ///< nodes whose bound was computed
  /// Counts the simulated configurations of the uniform space, each once: space_size = simulated + Σ pruned.
  std::int64_t simulated = 0;
  std::map<std::string, double> pruned;  ///< configurations removed, by rule
  bool optimal = false;                  ///< certificate: no configuration of the space is faster
  std::int64_t lower_bound_ns = 0;
  double gap = 0;
  SearchEnd reason = SearchEnd::none;
  SpaceKind space = SpaceKind::uniform;
  double memory_margin = 0;           ///< the space holds plans that fit into memory limit · (1 − margin)
  std::string memory_margin_basis{};  ///< "search.memory_margin", or the runs behind the default
  SearchRequest asked = {};
  /// Describes how layers are assigned to stages, if there is a pipeline: "by policy
  /// (balanced), not searched"; empty: none.
  std::string split = {};
  /// Counts the programs timed for `simulated`: equal timings once, including good starts of the search.
  std::int64_t lowered = 0;
  std::vector<PhaseSummary> phases = {};   ///< phases of the space, in order
  std::vector<StageBalance> balance = {};  ///< for a layer-wise answer with a pipeline under 1f1b
  /// Lists in what the engine lets layers and stages of one plan differ: "layers may differ in: zero, recompute;
  /// stages in: nothing". Empty: uniform plans were requested, or the engine restricts nothing.
  std::string freedom = {};

  /// Returns the last phase that has a counter; null if none has it.
  [[nodiscard]] const PhaseSummary* counted(SearchCounter counter) const;
  /// Returns the sum of a counter over these phases.
  [[nodiscard]] std::int64_t count(SearchCounter counter, std::initializer_list<std::string_view> phases) const;
  /// Returns the best time of these phases; 0: no plan of theirs fits.
  [[nodiscard]] std::int64_t best_ns(std::initializer_list<std::string_view> phases) const;
};

// The parts of the space that a search covered.
/// Returns whether layer-wise plans were searched.
bool covers_layers(const SearchSummary& search);
/// Returns whether partitions of operators were searched.
bool covers_partitions(const SearchSummary& search);
/// Returns whether plans on one node group of several, or on groups of heterogeneous devices, were searched.
bool covers_groups(const SearchSummary& search);
/// Returns the best uniform plan without partitions of operators; 0: none fits.
std::int64_t best_uniform_ns(const SearchSummary& search);
/// Returns the best plan without partitions of operators; 0: none fits.
std::int64_t best_without_partitions_ns(const SearchSummary& search);

}  // namespace espalier
