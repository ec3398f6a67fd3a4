// SPDX-License-Identifier: Apache-2.0
// Chains of stages on device groups between solver and simulator: what the solver is asked, which plan a chain is,
// which chains are near it.
#pragma once

#include <cstdint>
#include <vector>

#include "search/search.h"
#include "search/stage_options.h"

namespace espalier::search {

inline constexpr std::int64_t kSlackPermille = 5;  ///< candidates of one size, above its least bound

using Chain = std::vector<solve::GroupedStage>;

/// What the solver is asked for micro-batches of so many samples.
solve::DeviceGroupsProblem solver_problem(const Problem& problem, const StageOptions& options, std::int64_t samples);

/// The pipeline of a chain of stages, on devices of the cluster: of each group the largest stages first, so that no
/// stage inside a node lies across two.
Pipeline pipeline_of(const Problem& problem, const StageOptions& options, const Chain& stages, std::int64_t samples);

/// What the best plan may take, roughly: every kind as if all its units were stages of one option, layers shared so
/// that all stages take as long but for whole layers, a bubble of as many micro-batches as there are stages.
double estimate_ns(const solve::DeviceGroupsProblem& numbers);

/// Chains that differ from one by a single change: a boundary moved by one or two layers, two stages that change places
/// with or without their numbers of layers, a stage left to its neighbour, another option of as many units of the kind.
std::vector<Chain> changes_of(const Chain& chain, const StageOptions& options);

}  // namespace espalier::search
