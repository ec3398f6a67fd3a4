// SPDX-License-Identifier: Apache-2.0
// Handles questions about the size of a cluster that `plan` takes as flags: how many devices for a deadline, and what
// a budget buys. They become the job's search.objective (espalier/objective.h):
//
//   --deadline 10d     the cheapest size that is done in time; without prices, the one of fewest device-hours
//   --budget 50000     for the whole run: the fastest size that costs no more;
//                      budget_per_step = budget · samples of a step / samples of the run
//   both               the cheapest size within both
#pragma once

#include <string>

#include "cli/command.h"

namespace espalier::cli {

struct QuestionFlags {
  std::string deadline;  ///< "10d"
  double budget = 0, price = 0, tokens = 0;
  [[nodiscard]] bool any() const { return !deadline.empty() || budget > 0 || price > 0 || tokens > 0; }
};
void add_question_flags(Command& command, QuestionFlags& flags);
/// Returns the job's flags with the overrides that the questions add.
Result<JobFlags> with_questions(Context& context, const JobFlags& job, const QuestionFlags& questions);

}  // namespace espalier::cli
