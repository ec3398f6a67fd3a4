// SPDX-License-Identifier: Apache-2.0
// Computes a lower bound from a simulation that many configurations share.
//
// Configurations that differ only in shard groups and overlaps have the same pipeline: passes of equal length in the
// same order, and equal messages. Let E_i be the end of the last pass of stage i where nothing else takes time: no
// collectives, no waiting for sends. Data-parallel communication and waits only add predecessors to a pass, and it
// takes at least as long. By induction over the order of passes it ends no earlier. If the first forward pass
// overlaps the gathering of parameters, every pass follows the gather of the first chunk's first bucket. The work of
// a stage after its last pass is the tail of cost/bound.h. Hence
//
//     iteration ≥ g_0 + max_i (E_i + tail_i)        g_0: that gather, if there is one.
//
// The pipeline is simulated once and cached by its timing (planner/simulated_evaluator.h). Whether this is worthwhile
// follows from a simulated configuration of the same pipeline. Its iteration T gives E_i ≤ T − g_0 − tail_i, and so
// an upper limit of the bound.
#pragma once

#include <cstdint>
#include <vector>

#include "search/cost_book.h"
#include "search/evaluator.h"

namespace espalier::search {

/// Returns the floor of the configuration whose costs and structure are in w; 0 where the evaluator cannot time
/// pipelines. Overwrites w.pipeline.
std::int64_t pipeline_floor_ns(Evaluator& evaluator, Workspace& w, int worker);

/// Returns the bound of the configuration in w if its stages end their last passes at `ends`.
std::int64_t floor_of_ends(const Workspace& w, const std::vector<std::int64_t>& ends);
/// Returns the latest possible ends of the last passes of the stages of the configuration in w, without collectives
/// and waits. The configuration takes `iteration_ns`.
std::vector<std::int64_t> latest_pass_ends(const Workspace& w, std::int64_t iteration_ns);

/// Returns a configuration without the choices that do not affect its pipeline; the result is equal for
/// configurations that share one.
Configuration pipeline_of(const Configuration& c);
/// Returns a configuration without the choices below its schedule choice.
Configuration schedule_choice_of(const Configuration& c);

}  // namespace espalier::search
