// SPDX-License-Identifier: Apache-2.0
// What a plan shall be best at where time is not all: money, or time within a budget or before a deadline
// (`search.objective` of a job).
//
//   auto job = load_job_file("examples/…", {});      // search: {objective: {minimise: cost, deadline: 10d}}
//   auto answer = plan_for_objective(*job, {});
//   std::cout << to_text(*answer) << answer->answer->brief();
//
// More devices make a step faster and dearer, so that how many nodes of each group are paid for is part of the answer.
// A *size* is a number of nodes of every
// group: powers of two, all of them, and none where there are several groups. Of each size the fastest plan is found by
// plan(), on a cluster of these nodes alone, and priced (planner/expense.h); the best of those within budget and
// deadline is the answer. One whose fastest plan leaves nodes out gives way to the size without them. A size is not
// searched where its bound is enough to say that it loses: the time of all work on its devices
// (search/multi_pipeline.h), and that time at the price of its nodes.
//
// What proves an answer. No step on any of these nodes costs less than
//     Σ over layers of min over groups of (device-seconds of the layer for the batch) · (price of a device-second),
// since every layer is computed somewhere, and communication, waiting and idle devices cost money as well.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "espalier/job.h"
#include "espalier/planner.h"
#include "espalier/result.h"

namespace espalier {

/// How many nodes of each group, and what the fastest plan on them does.
struct SizeAnswer {
  std::vector<std::int64_t> nodes_by_group;
  std::int64_t devices = 0;
  double per_hour = 0;             ///< of all its nodes
  std::int64_t iteration_ns = 0;   ///< 0: nothing fits, or not searched
  std::optional<Expense> expense;  ///< of its plan
  double days = 0;                 ///< of the whole run; 0: training.tokens is not stated
  bool within = false;             ///< budget and deadline
  std::string label;               ///< of the plan, or why there is none
};

struct ObjectiveAnswer {
  Objective objective;
  std::vector<SizeAnswer> sizes;  ///< searched ones by rising cost of a step, then those without a plan
  std::size_t best = 0;           ///< of `sizes`
  double least_cost = 0;          ///< no step costs less
  std::optional<PlannerResult> answer;
};

/// Needs prices of all nodes where money is spoken of, and training.tokens for a deadline. infeasible where no size is
/// within both. Refused: clusters that change over time, and devices of unequal speed.
Result<ObjectiveAnswer> plan_for_objective(const Job& job, const PlannerOptions& options);

std::string to_text(const ObjectiveAnswer& answer);
/// schema espalier.objective/1.
std::string to_json(const ObjectiveAnswer& answer);

}  // namespace espalier
