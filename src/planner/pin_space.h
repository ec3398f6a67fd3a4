// SPDX-License-Identifier: Apache-2.0
// Determines what is legal under some of a job's pins: whether anything is, and the first configuration in the
// order of choice.
#pragma once

#include <optional>
#include <vector>

#include "espalier/job.h"
#include "job/pins.h"
#include "plan/engine_fwd.h"
#include "search/space.h"

namespace espalier::planner {

bool any_legal(const Job& job, const EngineModel& engine, const SearchSpace& restriction);
bool any_legal(const Job& job, const EngineModel& engine, const std::vector<job::Pin>& pins);
/// Returns the first legal configuration in the order of choice; nullopt if there is none.
std::optional<search::Configuration> first_legal(const Job& job, const EngineModel& engine, const SearchSpace& restriction);

/// Returns the pins without the one at index i.
std::vector<job::Pin> without(const std::vector<job::Pin>& pins, std::size_t i);
bool has_engine(const std::vector<job::Pin>& pins);
/// Returns the engine whose rules hold under these pins.
const EngineModel& engine_under(const std::vector<job::Pin>& pins, const EngineModel& engine);

}  // namespace espalier::planner
