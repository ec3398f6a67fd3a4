// SPDX-License-Identifier: Apache-2.0
// Plans for an objective other than only time: cost, or time within a budget or before a deadline (`search.objective`
// of a job).
//
//   auto job = load_job_file("examples/…", {});      // search: {objective: {minimise: cost, deadline: 10d}}
//   auto answer = adapt::plan_for_objective(*job, {});
//   std::cout << to_text(*answer) << answer->answer->brief();     // all sizes, and the best plan.
//
// More devices make a step faster and more expensive, so the number of paid nodes in each group is part of the
// answer. A *size* is a number of nodes for every group: powers of two, all nodes, and, with several groups, no
// nodes. For each size, plan() finds the fastest plan on a cluster of only these nodes, and planner/expense.h prices
// it. The answer is the best of the plans within budget and deadline. A size whose fastest plan leaves nodes unused
// is dropped in favour of the size without them. A size is not searched if its bounds show that it cannot win. These
// are the time of all work on its devices (search/multi_pipeline.h), and that time at the price of its nodes.
//
// A lower bound proves the answer. No step on any of these nodes costs less than
//     Σ over layers of min over groups of (device-seconds of the layer for the batch) · (price of a device-second).
// Every layer is computed somewhere, and communication, waiting and idle devices cost money as well.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "espalier/job.h"
#include "espalier/planner.h"
#include "espalier/result.h"

namespace espalier::adapt {

/// Describes one size: its nodes by group, and the fastest plan on them.
struct SizeAnswer {
  std::vector<std::int64_t> nodes_by_group;
  std::int64_t devices = 0;
  double per_hour = 0;                       ///< price of all its nodes
  std::optional<std::int64_t> iteration_ns;  ///< none: nothing fits, or not searched
  std::optional<Expense> expense;            ///< price of its plan
  std::optional<double> days;                ///< duration of the whole run; none: training.tokens is not stated
  bool within = false;                       ///< within budget and deadline
  std::string label;                         ///< label of the plan, or why there is none
};

/// Holds the best plan and all sizes.
struct ObjectiveAnswer {
  Objective objective;
  std::vector<SizeAnswer> sizes;  ///< searched sizes by ascending cost of a step, then those without a plan
  std::size_t best = 0;           ///< index into `sizes`
  double least_cost = 0;          ///< no step costs less
  std::optional<PlannerResult> answer;
};

/// Finds the best plan for the job's objective. It needs the prices of all nodes if the objective involves cost, and
/// training.tokens for a deadline. Fails with infeasible if no size is within budget and deadline. Rejects clusters
/// that change over time and devices of unequal speed.
Result<ObjectiveAnswer> plan_for_objective(const Job& job, const PlannerOptions& options);

/// Returns text for a terminal.
std::string to_text(const ObjectiveAnswer& answer);
/// Returns JSON of schema espalier.objective/1.
std::string to_json(const ObjectiveAnswer& answer);

}  // namespace espalier::adapt
