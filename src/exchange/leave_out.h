// SPDX-License-Identifier: Apache-2.0
// A rule that a plan breaks, as a fault of its export: what it says, what would be legal, and the plan without it where there is a substitute.
//
// Of a strategy the substitutes of a rule are the values of what has substitutes (schedule, ZeRO stage, shard group, sequence parallelism, order of
// ranks, recomputation, kind of context parallelism, overlap) with which the rule holds and no other one breaks; the first in the order in which
// they are named here. Layers with strategies of their own become layers with the one that most of them have.
#pragma once

#include "espalier/exchange.h"
#include "plan/engine.h"

namespace espalier::exchange {

ExportFault fault_of(const EngineModel& engine, const Job& job, const Plan& plan, const RuleViolation& violation);

/// The plan with one strategy for all layers, under the schedule: devices and chunks as the plan has them where the schedule places chunks alike,
/// otherwise as the engine cuts them.
Plan with_strategy(const EngineModel& engine, const Job& job, const Plan& plan, const Strategy& strategy, const Schedule& schedule);

}  // namespace espalier::exchange
