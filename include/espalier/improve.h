// SPDX-License-Identifier: Apache-2.0
// Finds improvements of a present configuration. The answer has its cost, the best plan of the same engine on the
// same devices, and the gain of every single change.
//
//   auto [strategy, schedule] = exchange::completed_configuration(*job, *configuration);   // or from elsewhere
//   auto present = exchange::plan_of(*job, *configuration);
//   auto answer = adapt::improve(*job, {strategy, schedule, present, strategy.zero, strategy.overlap}, {});
//   std::cout << to_text(*answer, 100);   // present plan, best plan and gains
//
// A single change gives one dimension another value; other dimensions change only as a
// consequence (planner/single_changes.h).
//
// The answer is never worse than the present plan. plan() leaves some options out unless a job names them: offload
// and overlapped tensor parallelism. If the present plan uses them, the search covers them. A present plan may fit
// with less than the usual memory margin. It is then compared with plans that leave at least the same margin. A
// margin in the job is not changed. The search may find nothing faster than the present plan (a hand-made layout) or
// than one single change of it. Then that plan is the answer, and `best_from` records its origin.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/planner.h"

namespace espalier::adapt {

/// Describes the configuration that runs now.
struct PresentConfiguration {
  Strategy strategy;
  Schedule schedule;
  Result<Plan> plan;  ///< or the rules that it breaks
  /// Holds the switches that are on even where they have no effect yet. A single change may give them
  /// one (ZeRO 1 where dp is 1 now).
  ZeroStage zero = ZeroStage::none;
  Overlap overlap = {};
};

/// Holds the present plan, the best plan and the gain between them.
struct Improvement {
  std::optional<PlannerResult> present;  ///< none: it breaks rules
  std::string broken;                    ///< the rules that it breaks
  std::optional<PlannerResult> best;     ///< none: no plan fits
  std::optional<Error> none;             ///< why no plan fits
  double gain = 0;                       ///< share of the present step that the best plan saves
  enum class From : std::uint8_t { search, present, change };
  From best_from = From::search;  ///< origin of `best`
  /// Lists single changes that fit with the margin and gain, fastest first. If the present configuration does not
  /// run, it lists the changes that make it run.
  std::vector<SingleChange> changes;
  std::int64_t tried = 0;          ///< number of legal single changes
  double memory_margin = 0;        ///< share of the memory that the best plan and the changes leave free
  bool margin_of_present = false;  ///< the margin is that of the present plan, below the usual one
  /// Maps the dimensions that the search varied because the present plan uses them to their values:
  /// "offload" -> none, optimizer.
  std::map<std::string, std::vector<std::string>> widened;
};
std::string_view to_string(Improvement::From from);  ///< "search", "present plan", "single change"

/// Searches for the best plan and simulates the single changes. Errors are those of plan(), except infeasible,
/// which is part of the answer.
Result<Improvement> improve(const Job& job, const PresentConfiguration& present, const PlannerOptions& options);

/// Returns text for a terminal, wrapped at `width` columns; 0 does not wrap. `changes` is the text of a
/// ConfigurationDiff, or empty.
std::string to_text(const Improvement& improvement, std::size_t width = 0, const std::string& changes = "");
/// Returns JSON of schema espalier.improvement/1. `source` is JSON that describes the origin of the present
/// configuration, and `diff` is JSON of a ConfigurationDiff. Either may be empty.
std::string to_json(const Improvement& improvement, const std::string& source = "", PlanSchema schema = PlanSchema::two,
                    const std::string& diff = "");

}  // namespace espalier::adapt
