// SPDX-License-Identifier: Apache-2.0
// Converts the options of the layer-wise search into a plan that can be timed: ranges of equal strategies, and their
// costs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/layer_options.h"
#include "search/layerwise.h"

namespace espalier::search {

/// Applies the overlap of a whole plan; it affects a layer only where there is something to overlap. `experts`: the
/// model has some.
Strategy with_overlap(Strategy s, const Overlap& on, bool experts);

/// Returns the overlap switches that are on anywhere in a plan.
Overlap overlap_of(const LayeredConfiguration& c);

/// Builds ranges from the chunks [first[c], first[c+1]) and the strategy `options[l]` (index into the table) of every
/// layer l. `samples` per micro-batch decide schedule.micro_batch.
LayeredConfiguration layered_configuration(const Model& model, const OptionTable& table, Schedule schedule, std::int64_t samples,
                                           const std::vector<std::int32_t>& first, const std::vector<std::int32_t>& options,
                                           const Overlap& overlap);

/// Builds ranges in the same way from one strategy per layer, which includes its recomputation.
LayeredConfiguration layered_configuration(const Model& model, Schedule schedule, std::int64_t samples,
                                           const std::vector<std::int32_t>& first, std::vector<Strategy> strategies,
                                           const Overlap& overlap);

/// Returns a uniform configuration as a layered one, with the options of its layers; nullopt if the table lacks its
/// strategy.
std::optional<LayeredCandidate> as_layered(const Model& model, const OptionTable& table, const Configuration& c,
                                           const cost::SplitTable& split);

/// Fills in the structure and costs of a configuration.
void assemble(const cost::CostContext& context, const LayeredConfiguration& c, std::int64_t samples, ProgramStructure& structure,
              cost::Costs& costs);

/// Orders configurations by canonical text.
bool canonical_less(const LayeredConfiguration& a, const LayeredConfiguration& b);

}  // namespace espalier::search
