// SPDX-License-Identifier: Apache-2.0
// From the options of the layer-wise search to a plan that can be timed: ranges of equal strategies, and their costs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/layer_options.h"
#include "search/layerwise.h"

namespace espalier::search {

/// Overlap of a whole plan; a layer takes part where it has something to overlap. `experts`: the model has some.
Strategy with_overlap(Strategy s, const Overlap& on, bool experts);

/// The overlap switches that are on anywhere in a plan.
Overlap overlap_of(const LayeredConfiguration& c);

/// Chunks [first[c], first[c+1]) with strategy `options[l]` (index into the table) of every layer l, as ranges;
/// `samples` of a micro-batch decide schedule.micro_batch.
LayeredConfiguration layered_configuration(const Model& model, const OptionTable& table, Schedule schedule, std::int64_t samples,
                                           const std::vector<std::int32_t>& first, const std::vector<std::int32_t>& options,
                                           const Overlap& overlap);

/// The same of one strategy a layer, recomputed as it says by itself.
LayeredConfiguration layered_configuration(const Model& model, Schedule schedule, std::int64_t samples,
                                           const std::vector<std::int32_t>& first, std::vector<Strategy> strategies,
                                           const Overlap& overlap);

/// A uniform configuration as a layered one, with the options of its layers; nothing if the table lacks its strategy.
std::optional<LayeredCandidate> as_layered(const Model& model, const OptionTable& table, const Configuration& c,
                                           const cost::SplitTable& split);

/// Its structure and costs.
void assemble(const cost::CostContext& context, const LayeredConfiguration& c, std::int64_t samples, ProgramStructure& structure,
              cost::Costs& costs);

/// Order of canonical text.
bool canonical_less(const LayeredConfiguration& a, const LayeredConfiguration& b);

}  // namespace espalier::search
