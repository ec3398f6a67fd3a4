// SPDX-License-Identifier: Apache-2.0
// Describes the work of the phases of a search (docs/search.md): their bounds, best plans and counters. The table of
// counters is their only description. Results write and read them by it, and scripts/schemas.py makes the schema and
// the table of docs/file-formats.md from it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace espalier {

/// Names a figure that a phase counts.
enum class SearchCounter : std::uint8_t {
  bounded,
  lowered,
  simulated,
  out_of_memory,
  strategies,
  kept,
  choices,
  refinement_tried,
  refinement_left,
  tensor_groups,
  operator_searches,
  inexact_searches,
  partitions,
  configurations,
  batch_sizes,
  options,
  dropped,
  candidates,
  refined,
  pipelines,
};

/// Describes a counter: its name in documents, what it counts, and its meaning.
struct SearchCounterRow {
  SearchCounter counter;
  std::string_view name, unit, meaning;
};

/// Lists all counters in the order in which documents write them.
inline constexpr std::array<SearchCounterRow, 20> kSearchCounters = {{
    {SearchCounter::bounded, "bounded", "nodes",
     "nodes of the search whose bound was computed; choices that were solved; partial plans; sets of pipelines; plans of "
     "replicas"},
    {SearchCounter::lowered, "lowered", "programs", "programs lowered and timed"},
    {SearchCounter::simulated, "simulated", "plans", "plans simulated that no earlier phase simulated"},
    {SearchCounter::out_of_memory, "out_of_memory", "plans", "simulated plans that do not fit"},
    {SearchCounter::strategies, "strategies", "strategies", "strategies of a layer kind, summed over pipelines and batches"},
    {SearchCounter::kept, "kept", "strategies", "strategies that no other of the same layout beats in every component"},
    {SearchCounter::choices, "choices", "choices",
     "choices of stages, samples per micro-batch and schedule; their bounds exclude those that were not solved"},
    {SearchCounter::refinement_tried, "refinement_tried", "changes",
     "single changes of the answer that were simulated: a layer's strategy, a boundary between chunks, the overlap switches"},
    {SearchCounter::refinement_left, "refinement_left", "changes",
     "single changes of the answer that were not simulated; with 0 left, none makes it faster"},
    {SearchCounter::tensor_groups, "tensor_groups", "groups", "choices of tensor group and samples with partitioned operators"},
    {SearchCounter::operator_searches, "operator_searches", "searches", "searches for the partitions of a block's operators"},
    {SearchCounter::inexact_searches, "inexact_searches", "searches",
     "operator searches that gave a bound in place of the least time of a block"},
    {SearchCounter::partitions, "partitions", "partitions", "partitions that strategies could use"},
    {SearchCounter::configurations, "configurations", "configurations", "legal uniform configurations on one node group alone"},
    {SearchCounter::batch_sizes, "batch_sizes", "sizes", "numbers of samples that a micro-batch may have"},
    {SearchCounter::options, "options", "options", "options for a stage, over all batch sizes"},
    {SearchCounter::dropped, "dropped", "options",
     "options for a stage that are no better than another on as many devices of the same kind"},
    {SearchCounter::candidates, "candidates", "plans", "plans with the lowest bounds, and plans that the search started from"},
    {SearchCounter::refined, "refined", "plans", "simulated plans that are single changes of the best one"},
    {SearchCounter::pipelines, "pipelines", "pipelines", "pipelines on one of several node groups, to run concurrently"},
}};
static_assert([] {
  for (std::size_t i = 0; i < kSearchCounters.size(); ++i)
    if (static_cast<std::size_t>(kSearchCounters[i].counter) != i) return false;
  return true;
}());

constexpr const SearchCounterRow& row_of(SearchCounter counter) { return kSearchCounters[static_cast<std::size_t>(counter)]; }
/// Returns the counter of a name; nullopt if there is none.
constexpr std::optional<SearchCounter> search_counter_of(std::string_view name) {
  for (const SearchCounterRow& row : kSearchCounters)
    if (row.name == name) return row.counter;
  return std::nullopt;
}

/// Holds the counters of a phase. A phase has those that its work defines.
using SearchCounters = std::map<SearchCounter, std::int64_t>;
/// Returns a counter; 0 where the phase has none.
inline std::int64_t count_of(const SearchCounters& counters, SearchCounter counter) {
  const auto found = counters.find(counter);
  return found == counters.end() ? 0 : found->second;
}

// Names of phases, in the order in which they run.
inline constexpr std::string_view kUniformPhase = "uniform", kLayersPhase = "layer-wise", kOperatorsPhase = "operators",
                                  kOperatorsByLayerPhase = "operators by layer", kEachGroupPhase = "each group",
                                  kDeviceGroupsPhase = "device groups", kWholeClusterPhase = "whole cluster",
                                  kPipelinesPhase = "unlike pipelines", kReplicasPhase = "unequal replicas";

/// Reports the work of one phase.
struct PhaseSummary {
  std::string name;
  bool left_out = false;            ///< by name
  bool complete = false;            ///< false: stopped by a limit or an interruption, or not started
  std::int64_t lower_bound_ns = 0;  ///< no plan of the phase takes less; 0: unknown
  std::int64_t best_ns = 0;         ///< best plan that the phase found; 0: none fits, or bounds exclude all
  /// No plan takes less with any partition of operators, offered or not; 0: the phase has none.
  std::int64_t partition_bound_ns = 0;
  SearchCounters counters = {};  ///< empty: the phase did not start
  double seconds = 0;            ///< wall clock; printed only under "timing"
};

}  // namespace espalier
