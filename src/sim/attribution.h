// SPDX-License-Identifier: Apache-2.0
// Attributes the iteration of a rank, interval by interval along its compute stream. espalier/simulate.h defines the
// categories.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/costs.h"
#include "espalier/simulate.h"
#include "plan/program.h"

namespace espalier::sim {

struct Attribution {
  Breakdown breakdown;
  std::int64_t hidden_ns = 0;  ///< collectives overlapped with compute, and communication hidden inside chunks
};

/// Attributes an iteration. `starts` and `ends` are by absolute instruction index.
Attribution attribute(const Program& program, const RankClass& rank, const cost::Costs& costs, std::int64_t iteration_ns,
                      const std::vector<std::int64_t>& starts, const std::vector<std::int64_t>& ends);

/// Holds the measured parts of a compute instruction of a rank, and its waiting time before it.
struct MeasuredParts {
  std::int64_t compute_ns = 0, exposed_ns = 0, waited_ns = 0;
};
/// Attributes the iteration of a measured rank. `parts` is by absolute instruction index. Idle time before an
/// instruction is a bubble as far as the rank waited. The rest, and the time of an instruction beyond its parts, is
/// host work: other.
Breakdown attribute_measured(const Program& program, const RankClass& rank, const std::vector<MeasuredParts>& parts,
                             std::int64_t iteration_ns, const std::vector<std::int64_t>& starts,
                             const std::vector<std::int64_t>& ends);

}  // namespace espalier::sim
