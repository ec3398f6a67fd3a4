// SPDX-License-Identifier: Apache-2.0
// Defines rules of engines that their own code asserts or their files cannot express, next to the restrictions of
// engine_rules.cpp. They cover the types of models, precisions, sequence lengths, and values that only hold together.
// Each reads fields of data/engines.yaml or belongs to one family.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "espalier/plan.h"
#include "plan/engine_fwd.h"
#include "plan/engine_rules.h"
#include "plan/rules.h"

namespace espalier {

std::span<const EngineRule> asserted_rules();
bool is_megatron(const EngineModel& engine);
template <class T>
bool contains(const std::vector<T>& values, const T& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}
/// Returns the overlaps of an engine without a switch (EngineRuns::chooses_overlap); tp is that of the strategy.
Overlap always_overlapped(const EngineModel& engine, const RuleFacts& facts, const Strategy& strategy, const Schedule& schedule);

}  // namespace espalier
