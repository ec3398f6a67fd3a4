// SPDX-License-Identifier: Apache-2.0
// Performs the last step of the search on device groups. It enumerates the candidates between the bound and the best
// plan where these are few.
//
// The bound is a few per mille below the simulated time, and the candidates of a size are only those near its least
// bound. Where few chains of stages have a bound below the best plan's time, all of them are simulated. The best plan
// is then the best of the space. Chains are built stage by stage. The enumeration stops at a stage that alone takes
// the best time, m·w_i of the bound in solve/device_group_chains.h, because more layers take more.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "solve/device_group_chains.h"

namespace espalier::search {

/// Selects the schedule under which chains are bounded.
enum class ChainSchedule : std::uint8_t { one_f_one_b, zero_bubble };
std::optional<solve::GroupedPipeline> bounded(const solve::DeviceGroupsProblem& problem,
                                              const std::vector<solve::GroupedStage>& stages, ChainSchedule schedule);

/// Returns all chains of stages whose bound is below `below_ns`, by bound. Returns nullopt where more than `left`
/// stages must be tried, or where more chains are below than kMostClosingPasses allows. Subtracts the number of
/// stages tried from `left`.
std::optional<std::vector<solve::GroupedPipeline>> chains_below(const solve::DeviceGroupsProblem& problem, std::int64_t below_ns,
                                                                std::int64_t& left,
                                                                ChainSchedule schedule = ChainSchedule::one_f_one_b);

}  // namespace espalier::search
