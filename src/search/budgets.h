// SPDX-License-Identifier: Apache-2.0
// Lists the numbers that bound the work of a search in one table, which `plan -v` prints. A budget that shapes the
// answer may leave a faster plan unfound, but never makes a slower answer count as optimal. A phase that reaches such
// a budget reports the bound that it has. All other budgets change only the amount of work.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace espalier::search {

template <class T>
struct Budget {
  std::string_view name;
  T value{};
  std::string_view bounds;  ///< quantity that the value limits
  bool shapes_answer = true;
  constexpr operator T() const { return value; }  // NOLINT(google-explicit-constructor): it stands for its value
};

inline constexpr Budget<std::int64_t> kMostAcrossPrices{"most-across-prices", 6'000, "priced plans across node groups", true};
inline constexpr Budget<std::int64_t> kMostModulePrices{
    "most-module-prices", 6'000, "priced plans across node groups with sets of recomputed modules, after those without", true};
inline constexpr Budget<std::int64_t> kMostPartPrices{"most-part-prices", 12'000,
                                                      "priced plans across node groups on parts of the cluster", true};
inline constexpr Budget<std::size_t> kMostNodeParts{"most-node-parts", 64, "parts of node groups searched for uneven replicas",
                                                    true};
inline constexpr Budget<std::size_t> kMostFewerGroups{"most-fewer-groups", 10,
                                                      "sets of fewer node groups on which a phase is repeated", true};
inline constexpr Budget<std::size_t> kMostAcrossSets{"most-across-sets", 64,
                                                     "parts of the cluster that are searched for plans across node groups", true};
inline constexpr Budget<std::size_t> kMostAcrossChoices{"most-across-choices", 200'000,
                                                        "layer choices bounded for plans across node groups", true};
inline constexpr Budget<std::int64_t> kMostPartDevices{
    "most-part-devices", 960'000, "devices of all plans priced on parts; small clusters get more than most-part-prices", true};
inline constexpr Budget<std::int64_t> kMostRefinedPrices{
    "most-refined-prices", 1'000, "priced plans with other micro-batches and schedules than the best plan across node groups",
    true};
inline constexpr Budget<std::size_t> kTriedOfJoined{"tried-of-joined", 128,
                                                    "plans of a part's best network tried on its own network", true};

inline constexpr Budget<std::size_t> kMostPipelineGroups{"most-pipeline-groups", 5,
                                                         "node groups; with more, concurrent pipelines are not searched", true};
inline constexpr Budget<std::size_t> kMostColumns{
    "most-columns", 6, "pipelines of a group from one search, each with a different number of samples per micro-batch", true};
inline constexpr Budget<std::int64_t> kMostExactSearches{"most-exact-searches", 400,
                                                         "searches of one group with one number of samples", true};
inline constexpr Budget<std::int64_t> kMostExactChoices{"most-exact-choices", 1'200'000,
                                                        "layer choices bounded in all of these searches", true};
inline constexpr Budget<std::size_t> kMostMissing{"most-missing", 8, "sample counts searched for a group without a plan", true};
inline constexpr Budget<std::int64_t> kMostSampleCells{"most-sample-cells", 4'096,
                                                       "cells of the table that divides samples among pipelines", true};
inline constexpr Budget<std::size_t> kMostCombinations{"most-combinations", 20'000, "sets of pipelines that are estimated", true};
inline constexpr Budget<std::size_t> kMostJudged{"most-judged", 48,
                                                 "sets of pipelines that are simulated, in order of their estimates", true};
inline constexpr Budget<std::int64_t> kMostSplits{"most-splits", 400, "plans simulated to improve the best set", true};
inline constexpr Budget<std::size_t> kImprovedSplits{"improved-splits", 4,
                                                     "sets of pipelines with different samples that are improved", true};
inline constexpr Budget<double> kMostEnumerated{"most-enumerated", 6'000,
                                                "configurations times samples up to which all pipelines are enumerated", true};
inline constexpr Budget<std::size_t> kMostPipelineSets{"most-pipeline-sets", 200'000,
                                                       "sets of pipelines listed to close the phase", true};
inline constexpr Budget<std::int64_t> kMostClosing{"most-closing", 3'000, "sets of pipelines simulated to close the phase", true};
inline constexpr Budget<std::int64_t> kMostSplitChoices{
    "most-split-choices", 1'200'000, "layer choices bounded to find the number of samples that groups train in a given time",
    true};
inline constexpr Budget<int> kSplitRounds{"split-rounds", 8,
                                          "bisection steps of the time in the bound on all splits of the samples", true};

inline constexpr Budget<std::size_t> kJudgedOfUnequal{"judged-of-unequal", 16,
                                                      "plans simulated for a group with devices of unequal speed", true};
inline constexpr Budget<std::size_t> kMostGroupParts{"most-group-parts", 64, "parts of a node group that are searched", true};

inline constexpr Budget<std::int64_t> kMostReplicaPlans{"most-replica-plans", 2'000,
                                                        "plans of uneven replicas that are simulated", true};
inline constexpr Budget<std::size_t> kMostReplicaGroups{"most-replica-groups", 5,
                                                        "node groups; with more, uneven replicas are not searched", true};
inline constexpr Budget<std::size_t> kMostReplicaSplits{
    "most-replica-splits", 20'000, "splits of a micro-batch examined for one strategy of uneven replicas", true};

inline constexpr Budget<double> kMostUnitSets{"most-unit-sets", 0x1p28,
                                              "sets of units; on clusters with more, chains of stages are not searched", true};
inline constexpr Budget<std::int64_t> kMostUnits{"most-units", 32, "units into which a node group is cut for chains of stages",
                                                 true};
inline constexpr Budget<std::size_t> kMostChains{"most-chains", 128, "chains of one micro-batch size that are simulated", true};
inline constexpr Budget<std::size_t> kKeptGrouped{"kept-grouped", 64, "chains that are kept for other schedules", true};
inline constexpr Budget<std::size_t> kRefinedGrouped{"refined-grouped", 16, "chains of different sizes that are refined", true};
inline constexpr Budget<std::size_t> kKeptOfShape{"kept-of-shape", 4, "kept chains of one shape and micro-batch size", true};
inline constexpr Budget<std::size_t> kRefinedZeroBubble{"refined-zero-bubble", 16, "chains under ZB-H1 that are refined", true};
inline constexpr Budget<std::size_t> kRepairedGrouped{
    "repaired-grouped", 4, "chains that do not fit whose changes are tried, for each micro-batch size", true};
inline constexpr Budget<std::int64_t> kMostChanges{"most-changes", 2'000, "changes judged for each refined chain", true};
inline constexpr Budget<std::int64_t> kMostLooked{"most-looked", 500'000,
                                                  "stages prepended to close the chains, over all micro-batch sizes", true};
inline constexpr Budget<std::int64_t> kMostClosingPasses{
    "most-closing-passes", 400'000, "chains times micro-batches of one size that are simulated to close the chains", true};

inline constexpr Budget<std::size_t> kMostNodeSets{"most-node-sets", 4'096, "sets of nodes listed for a cluster", true};
inline constexpr Budget<std::size_t> kMostOrders{"most-orders", 24, "orders of the groups of a set", true};

inline constexpr Budget<std::int32_t> kMostLayerwiseChunks{"most-layerwise-chunks", 8, "chunks per stage in layer-wise plans",
                                                           true};
inline constexpr Budget<std::size_t> kLayerStarts{"layer-starts", 6, "uniform plans that the layer-wise search refines", true};
inline constexpr Budget<std::int64_t> kStartTries{"start-tries", 1'500, "changes tried for each of these", true};
inline constexpr Budget<std::int64_t> kStartInstructions{"start-instructions", 40'000'000,
                                                         "instructions simulated for these changes", true};
inline constexpr Budget<std::int64_t> kAnswerTries{"answer-tries", 8'000, "changes tried for the layer-wise answer", true};
inline constexpr Budget<std::int64_t> kAnswerInstructions{"answer-instructions", 300'000'000,
                                                          "instructions simulated for these changes", true};
inline constexpr Budget<std::int64_t> kBoundaryRounds{"boundary-rounds", 8, "passes over the boundaries of chunks", true};
inline constexpr Budget<std::int64_t> kPartitionStates{"partition-states", 40'000'000,
                                                       "states of an operator partition examined for one choice", true};
inline constexpr Budget<std::int64_t> kFrontierStates{"frontier-states", 2'000'000,
                                                      "states examined for a frontier of operator partitions", true};

inline constexpr Budget<std::size_t> kIncumbentProbes{"incumbent-probes", 64, "configurations simulated for a first incumbent",
                                                      false};

/// Holds a row of the table.
struct BudgetRow {
  std::string_view name;
  double value = 0;
  std::string_view bounds;
  bool shapes_answer = true;
};
/// Returns all budgets in the order above.
std::vector<BudgetRow> budgets();

}  // namespace espalier::search
