// SPDX-License-Identifier: Apache-2.0
// A lower bound from a simulation that many configurations share.
//
// Configurations that differ in shard groups and overlaps alone have one pipeline: passes of equal length in the same
// order, and equal messages. Let E_i be the end of the last pass of stage i where nothing else takes time: no
// collectives, no waiting for sends. With data-parallel communication and waits every pass has the same predecessors
// and more, and takes at least as long, so that by induction over the order of passes it ends no earlier; and where
// parameters are gathered beside the first forward, every pass follows the gather of the first chunk's first bucket.
// What a stage does after its last pass is the tail of cost/bound.h. Hence
//
//     iteration ≥ g_0 + max_i (E_i + tail_i)        g_0: that gather, if there is one
//
// The pipeline is simulated once and remembered by its timing (planner/simulated_evaluator.h). Whether that is worth
// it, a configuration of the same pipeline that was simulated tells: from its iteration T follows E_i ≤ T − g_0 −
// tail_i, and so what a bound can be at most.
#pragma once

#include <cstdint>
#include <vector>

#include "search/cost_book.h"
#include "search/evaluator.h"

namespace espalier::search {

/// Of the configuration whose costs and structure are in w; 0 where the evaluator cannot time pipelines. Overwrites
/// w.pipeline.
std::int64_t pipeline_floor_ns(Evaluator& evaluator, Workspace& w, int worker);

/// The bound of the configuration in w, if its stages end their last passes at `ends`.
std::int64_t floor_of_ends(const Workspace& w, const std::vector<std::int64_t>& ends);
/// When the stages of the configuration in w end their last passes without collectives and waits, at the latest: it
/// takes `iteration_ns`.
std::vector<std::int64_t> latest_pass_ends(const Workspace& w, std::int64_t iteration_ns);

/// A configuration without what does not touch its pipeline; equal for configurations that share one.
Configuration pipeline_of(const Configuration& c);
/// A configuration without the choices below its schedule choice.
Configuration schedule_choice_of(const Configuration& c);

}  // namespace espalier::search
