// SPDX-License-Identifier: Apache-2.0
// What a present configuration costs, and what would be better: the best plan of the same engine on the same devices,
// and what every single change of the configuration gains.
//
//   auto [strategy, schedule] = completed_configuration(*job, *configuration);   // espalier/imported_configuration.h, or any other source
//   auto answer = improve(*job, {strategy, schedule, plan_of(*job, *configuration), strategy.zero, strategy.overlap},
//   {});
//   std::cout << to_text(*answer, 100);
//
// A single change gives one dimension another value; only what follows from it follows (planner/single_changes.h).
//
// The answer is never worse than the present plan. The space that is searched also holds what the present plan has and
// plan() leaves out unless a job names it: its offload and its overlapped tensor parallelism. A present plan that fits
// and leaves less than the usual memory margin is compared with plans that leave as much as it does; a margin that the
// job names stays. Where the search still finds nothing faster than the present plan (a layout cut by hand) or than one
// single change of it, that plan is the answer, and `best_from` says so.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/planner.h"

namespace espalier {

/// What runs now.
struct PresentConfiguration {
  Strategy strategy;
  Schedule schedule;
  Result<Plan> plan;  ///< or the rules that it breaks
  /// What is switched on whether or not there is something for it: a single change may give it something (ZeRO 1 where
  /// dp is 1 now).
  ZeroStage zero = ZeroStage::none;
  Overlap overlap = {};
};

struct Improvement {
  std::optional<PlannerResult> present;  ///< none: it breaks rules
  std::string broken;                    ///< these rules
  std::optional<PlannerResult> best;     ///< none: no plan fits
  Status none;                           ///< why
  double gain = 0;                       ///< share of the present step that the best plan saves
  enum class From : std::uint8_t { search, present, change };
  From best_from = From::search;  ///< where `best` is from
  /// Those that fit with the margin and gain, fastest first; of a present configuration that does not run, those that
  /// make it run.
  std::vector<SingleChange> changes;
  std::int64_t tried = 0;          ///< single changes that are legal
  double memory_margin = 0;        ///< share of the memory that the best plan and the changes leave free
  bool margin_of_present = false;  ///< that of the present plan, which is less than the usual
  /// Dimensions that the search varied because the present plan uses them, with their values: "offload" -> none,
  /// optimizer.
  std::map<std::string, std::vector<std::string>> widened;
};
std::string_view to_string(Improvement::From from);  ///< "search", "present plan", "single change"

/// Errors: those of plan() but infeasible, which is part of the answer.
Result<Improvement> improve(const Job& job, const PresentConfiguration& present, const PlannerOptions& options);

/// For people, no line longer than `width` columns; 0: as wide as it is. `changes`: the text of a ConfigurationDiff, or
/// empty.
std::string to_text(const Improvement& improvement, std::size_t width = 0, const std::string& changes = "");
/// schema espalier.improvement/1; `source`: JSON of where the present configuration comes from, `diff`: of a
/// ConfigurationDiff; or empty.
std::string to_json(const Improvement& improvement, const std::string& source = "", PlanSchema schema = PlanSchema::two,
                    const std::string& diff = "");

}  // namespace espalier
