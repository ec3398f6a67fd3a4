// SPDX-License-Identifier: Apache-2.0
// Converts chains of stages on device groups between solver and simulator: builds the solver's problem, the plan of a
// chain, and the neighbours of a chain.
#pragma once

#include <cstdint>
#include <vector>

#include "search/search.h"
#include "search/stage_options.h"

namespace espalier::search {

inline constexpr std::int64_t kSlackPermille = 100;  ///< range of candidates of one size above its least bound

using Chain = std::vector<solve::GroupedStage>;

/// Builds the solver's problem for micro-batches of `samples` samples.
solve::DeviceGroupsProblem solver_problem(const Problem& problem, const StageOptions& options, std::int64_t samples);

/// Builds the pipeline of a chain of stages on devices of the cluster. Each group places its largest stages first, so
/// that no stage that fits into a node spans two.
Pipeline pipeline_of(const Problem& problem, const StageOptions& options, const Chain& stages, std::int64_t samples);

/// Estimates the time of the best plan. Every kind is treated as if all its units were stages of one option. Layers
/// are shared so that all stages take equally long up to whole layers, with a bubble of as many micro-batches as
/// there are stages.
double estimate_ns(const solve::DeviceGroupsProblem& numbers);

/// Returns the chains that differ from one by a single change:
/// - a boundary moves by one or two layers;
/// - two stages swap places, with or without their numbers of layers;
/// - a stage goes to its neighbour;
/// - a stage takes another option;
/// - a stage is cut in the middle, and one half takes another option, or both halves share its units.
/// Some of them may need more units than the cluster has; bounded() in group_closing.h rules them out.
std::vector<Chain> changes_of(const Chain& chain, const StageOptions& options);

}  // namespace espalier::search
