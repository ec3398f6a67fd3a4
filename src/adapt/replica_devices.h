// SPDX-License-Identifier: Apache-2.0
// Tells which replica a device of a uniform plan belongs to. A stage lists its devices in the order of its ranks
// without the stage coordinate (plan/uniform.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/process_groups.h"

namespace espalier::adapt {

/// Calls f(replica, device) for each device of a stage with one strategy, as the plan counts devices.
template <class F>
void each_device(const Stage& stage, const Strategy& strategy, F f) {
  const std::int64_t inner = strategy.order == RankOrder::tp_dp_cp_pp ? strategy.tp : std::int64_t{strategy.tp} * strategy.cp;
  std::int64_t position = 0;
  for (const std::int64_t device : devices_of(stage.devices)) f(position++ / inner % strategy.dp, device);
}

/// Calls it for the devices of every stage of a uniform plan.
template <class F>
void each_device(const Plan& plan, F f) {
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages) each_device(stage, pipeline.strategy(), f);
}

}  // namespace espalier::adapt
