// SPDX-License-Identifier: Apache-2.0
// Plans whose stages lie on groups of unlike devices: pipelines of stages made as stage_options.h says, 1F1B, each
// stage its own units of one kind, its own tensor and data parallelism, ZeRO and recomputation, its own number of
// layers; units may be left out.
//
// For every number of samples a micro-batch may have (divisors of the global batch) the chains of stages are searched
// by solve/device_group_chains.h under its bound, those of the lowest bound first; candidates whose bound is below the
// incumbent are built as plans and
// judged: priced, lowered, simulated, every rank's memory against its own device. Sizes are searched by rising
// estimate, so that an early incumbent is a good one; it is refined at once by single changes, and plans of other sizes
// whose bound is not kWorthPermille below it are not looked for. The lower bound of the phase is the least of what the
// solver proves for each size under that cutoff.
//
// Where the job names schedules and ZB-H1 among them, the best chains run under it as well, and changes of the best.
// Its bound is that of all chains whose own work leaves them below the best plan, each simulated, where these are few
// (group_closing.h); else the time of all work (work_bound.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/group_chains.h"
#include "search/phase_outcome.h"
#include "search/search.h"

namespace espalier::search {

struct DeviceGroupsOptions {
  int threads = 1;
  std::int64_t node_limit = 0;    ///< plans simulated; 0: no limit
  std::int64_t incumbent_ns = 0;  ///< of another phase; 0: none
  std::uint32_t without = 0;      ///< solve::GroupRule
  bool cutoff = true;             ///< false: no size knows what others found
  std::function<bool()> interrupted;
  ProgressCallback progress;
};

/// `bounded` counts partial plans that were kept.
struct GroupedOutcome : PhaseOutcome {
  std::vector<GroupedCandidate> simulated;  ///< that fit, by time; at most kKeptGrouped
  std::int64_t sizes = 0;                   ///< of micro-batches
  std::int64_t refused = 0;                 ///< of these: by limits alone, no plan is better than what was known
  std::int64_t options = 0, dropped = 0;
  std::int64_t tried = 0;  ///< ways to put a stage in front of a partial plan
  std::int64_t candidates = 0;
  std::int64_t refined = 0;  ///< of the plans simulated, single changes of others
};
inline constexpr std::int64_t kWorthPermille = 3;     ///< what a plan of another size must gain, by its bound
inline constexpr std::int64_t kRefinedPermille = 20;  ///< plans of other sizes that are refined, above the best

GroupedOutcome device_groups(const Problem& problem, Evaluator& evaluator, const DeviceGroupsOptions& options);

}  // namespace espalier::search
