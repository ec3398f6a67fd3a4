// SPDX-License-Identifier: Apache-2.0
#include "search/budgets.h"

namespace espalier::search {
namespace {

template <class... Budgets>
std::vector<BudgetRow> rows_of(const Budgets&... all) {
  return {BudgetRow{all.name, static_cast<double>(all.value), all.bounds, all.shapes_answer}...};
}

}  // namespace

std::vector<BudgetRow> budgets() {
  return rows_of(kMostAcrossPrices, kMostModulePrices, kMostPartPrices, kMostPartDevices, kMostFewerGroups, kMostNodeParts,
                 kMostAcrossSets, kMostAcrossChoices, kMostRefinedPrices, kTriedOfJoined, kMostPipelineGroups, kMostColumns,
                 kMostExactSearches, kMostExactChoices, kMostMissing, kMostSampleCells, kMostCombinations, kMostJudged,
                 kMostSplits, kImprovedSplits, kMostEnumerated, kMostPipelineSets, kMostClosing, kMostSplitChoices, kSplitRounds,
                 kJudgedOfUnequal, kMostGroupParts, kMostReplicaPlans, kMostReplicaGroups, kMostReplicaSplits, kMostUnitSets,
                 kMostUnits, kMostChains, kKeptGrouped, kKeptOfShape, kRefinedGrouped, kRefinedZeroBubble, kRepairedGrouped,
                 kMostChanges, kMostLooked, kMostClosingPasses, kMostNodeSets, kMostOrders, kMostLayerwiseChunks, kLayerStarts,
                 kStartTries, kStartInstructions, kAnswerTries, kAnswerInstructions, kBoundaryRounds, kPartitionStates,
                 kFrontierStates, kIncumbentProbes);
}

}  // namespace espalier::search
