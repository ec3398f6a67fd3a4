// SPDX-License-Identifier: Apache-2.0
// What a plan on unlike devices is compared with, each the best plan of its own space (the uniform phase, with the same memory margin):
//
//   KIND alone      the node groups of one kind, when they are one group: what remains if all other devices are left out
//   equal split     all devices treated alike, as engines for equal devices do: every rank takes the same work, so that all go at the pace of
//                   the slowest kind, with the memory of the smallest and the links of the slowest group
//
// The equal split is predicted on a cluster that has only such devices; what the faster ones wait for is lost. Nothing is said of plans that cannot
// be made (a number of devices that no degrees have).
#pragma once

#include <string>
#include <vector>

#include "espalier/planner.h"
#include "plan/engine.h"
#include "search/each_group.h"

namespace espalier::planner {

struct GroupBaseline {
  std::string label;
  Job job;  ///< on the cluster that it speaks of
};
/// Of several node groups each alone, in their order, then the equal split where the devices of the slowest kind make whole nodes of it.
std::vector<GroupBaseline> group_baselines(const Job& job);

/// Their best plans, the alternatives of an answer on unlike devices. `alone`: what the search of each group found; null: searched here.
std::vector<Alternative> group_alternatives(const Job& job, const EngineModel& engine, const PlannerResult& answer,
                                            const search::EachGroupOutcome* alone, int threads,
                                            const std::function<bool()>& interrupted);

}  // namespace espalier::planner
