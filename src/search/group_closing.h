// SPDX-License-Identifier: Apache-2.0
// The last step of the search on device groups: what lies between the bound and the best plan, looked at one by one
// where that is little.
//
// The bound leaves a few per mille to what the simulator alone knows, and candidates of a size are only those near its
// least bound. Where few chains of stages have a bound below the best plan's time, all of them are simulated, and then
// the best plan is the best of the space. Chains are built stage by stage; a stage that alone needs the time already
// known, m·w_i of the bound in solve/device_group_chains.h, ends the way: more layers need more.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "solve/device_group_chains.h"

namespace espalier::search {

/// Under which schedule chains are bounded.
enum class ChainSchedule : std::uint8_t { one_f_one_b, zero_bubble };
std::optional<solve::GroupedPipeline> bounded(const solve::DeviceGroupsProblem& problem,
                                              const std::vector<solve::GroupedStage>& stages, ChainSchedule schedule);

/// All chains of stages whose bound is below `below_ns`, by bound; nothing where more than `left` stages must be looked
/// at, or more chains than kMostClosingPasses allows are below. What was looked at is taken from `left`.
std::optional<std::vector<solve::GroupedPipeline>> chains_below(const solve::DeviceGroupsProblem& problem, std::int64_t below_ns,
                                                                std::int64_t& left,
                                                                ChainSchedule schedule = ChainSchedule::one_f_one_b);

}  // namespace espalier::search
