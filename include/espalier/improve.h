// SPDX-License-Identifier: Apache-2.0
// What a present configuration costs, and what would be better: the best plan of the same engine on the same devices, and what every single change of
// the configuration gains.
//
//   auto [strategy, schedule] = completed_configuration(*job, *configuration);   // espalier/imported_configuration.h, or any other source
//   auto answer = improve(*job, {strategy, schedule, plan_of(*job, *configuration), strategy.zero, strategy.overlap}, {});
//   std::cout << to_text(*answer, 100);
//
// A single change gives one dimension another value. What follows from it follows: dp takes the devices that are left, ZeRO shards over the ranks that
// hold the same weights, overlaps stay where there is something to overlap, stages are cut as the engine cuts them. Changes are held to what plan()
// holds its answer to: the memory margin, the job's search part, and no overlap_tp unless the job names it. A present plan that fits and leaves less
// than the usual margin is compared with what leaves as much as it does; a margin that the job names stays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "espalier/planner.h"

namespace espalier {

/// What runs now.
struct PresentConfiguration {
  Strategy strategy;
  Schedule schedule;
  Result<Plan> plan;  ///< or the rules that it breaks
  /// What is switched on whether or not there is something for it: a single change may give it something (ZeRO 1 where dp is 1 now).
  ZeroStage zero = ZeroStage::none;
  Overlap overlap = {};
};

struct SingleChange {
  std::string change;  ///< "tp 8 -> 4"
  std::string label;   ///< of the plan
  std::int64_t iteration_ns = 0, peak_memory_bytes = 0;
  bool fits = false;
  double gain = 0;  ///< share of the present step that it saves; 0 where that is not known
};

struct Improvement {
  std::optional<PlannerResult> present;  ///< none: it breaks rules
  std::string broken;                    ///< these rules
  std::optional<PlannerResult> best;     ///< none: no plan fits
  Status none;                           ///< why
  double gain = 0;                       ///< share of the present step that the best plan saves
  /// Those that fit with the margin and gain, fastest first; of a present configuration that does not run, those that make it run.
  std::vector<SingleChange> changes;
  std::int64_t tried = 0;          ///< single changes that are legal
  double memory_margin = 0;        ///< share of the memory that the best plan and the changes leave free
  bool margin_of_present = false;  ///< that of the present plan, which is less than the usual
};

/// Errors: those of plan() but infeasible, which is part of the answer.
Result<Improvement> improve(const Job& job, const PresentConfiguration& present, const PlannerOptions& options);

/// For people, no line longer than `width` columns; 0: as wide as it is.
std::string to_text(const Improvement& improvement, std::size_t width = 0);
/// schema espalier.improvement/1; `source`: JSON of where the present configuration comes from, or empty.
std::string to_json(const Improvement& improvement, const std::string& source = "", PlanSchema schema = PlanSchema::two);

}  // namespace espalier
