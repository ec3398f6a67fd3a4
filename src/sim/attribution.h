// SPDX-License-Identifier: Apache-2.0
// Where the iteration of a rank goes, interval by interval along its compute stream. What counts as what:
// espalier/simulate.h.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/costs.h"
#include "espalier/simulate.h"
#include "plan/program.h"

namespace espalier::sim {

struct Attribution {
  Breakdown breakdown;
  std::int64_t hidden_ns = 0;  ///< collectives beside compute, and communication hidden inside chunks
};

/// `starts` and `ends` by absolute instruction index.
Attribution attribute(const Program& program, const RankClass& rank, const cost::Costs& costs, std::int64_t iteration_ns,
                      const std::vector<std::int64_t>& starts, const std::vector<std::int64_t>& ends);

/// What a rank was seen to do in a compute instruction, and to wait before it.
struct MeasuredParts {
  std::int64_t compute_ns = 0, exposed_ns = 0, waited_ns = 0;
};
/// Of a rank that was measured; `parts` by absolute instruction index. Idle time before an instruction is a bubble as
/// far as the rank waited, the rest is work of the host, as is what an instruction took beyond its parts: other.
Breakdown attribute_measured(const Program& program, const RankClass& rank, const std::vector<MeasuredParts>& parts,
                             std::int64_t iteration_ns, const std::vector<std::int64_t>& starts,
                             const std::vector<std::int64_t>& ends);

}  // namespace espalier::sim
