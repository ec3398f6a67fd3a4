// SPDX-License-Identifier: Apache-2.0
// Searches plans whose stages lie on groups of heterogeneous devices. Plans are 1F1B pipelines of the stages of
// stage_options.h. Each stage has its own units of one kind, its own tensor and data parallelism, ZeRO, recomputation
// and number of layers. Units may be left out.
//
// The possible numbers of samples in a micro-batch are the divisors of the global batch. For each,
// solve/device_group_chains.h searches the chains of stages under its bound, those of the lowest bound first.
// Candidates whose bound is below the incumbent are built as plans and judged: they are priced, lowered and
// simulated, and every rank's memory is checked against its own device. Sizes are searched by rising estimate, so
// that an early incumbent is a good one. The incumbent is refined at once by single changes, the best plans of other
// sizes at the end. Where no candidate of a size fits, changes of the first candidates are tried. Plans of other sizes
// are not searched unless their bound is kWorthPermille below it. The lower bound of the phase is the least of the
// bounds that the solver proves for each size under that cutoff.
//
// If the job names schedules including ZB-H1, the best chains, and changes of the best of these, also run under ZB-H1.
// Its bound needs the chains whose own work leaves them below the best plan. Where these are few, each is simulated
// and the bound covers them all (group_closing.h). Otherwise the bound is the time of all work (work_bound.h).
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
  std::int64_t node_limit = 0;    ///< limit on simulated plans; 0: no limit
  std::int64_t incumbent_ns = 0;  ///< incumbent of another phase; 0: none
  std::uint32_t without = 0;      ///< solve::GroupRule
  bool cutoff = true;             ///< false: no size uses the results of others
  std::function<bool()> interrupted;
  ProgressCallback progress;
};

/// Holds the outcome of the phase; `bounded` counts partial plans that were kept.
struct GroupedOutcome : PhaseOutcome {
  std::vector<GroupedCandidate> simulated;  ///< plans that fit, by time; at most kKeptGrouped
  std::int64_t sizes = 0;                   ///< number of micro-batch sizes
  std::int64_t refused = 0;                 ///< sizes where limits alone rule out any plan better than the known one
  std::int64_t options = 0, dropped = 0;
  std::int64_t tried = 0;  ///< attempts to put a stage in front of a partial plan
  std::int64_t candidates = 0;
  std::int64_t refined = 0;  ///< simulated plans that are single changes of others
};
/// Gain that the bound must promise before plans of another size are searched.
inline constexpr std::int64_t kWorthPermille = 3;
/// Range above the best plan within which plans of other sizes are refined.
inline constexpr std::int64_t kRefinedPermille = 150;

GroupedOutcome device_groups(const Problem& problem, Evaluator& evaluator, const DeviceGroupsOptions& options);

}  // namespace espalier::search
