// SPDX-License-Identifier: Apache-2.0
// Declares flags for the prices of moves, which what-if, replan and plans over traces share.
#pragma once

#include <memory>
#include <string>

#include "cli/command.h"
#include "espalier/adapt.h"

namespace espalier::cli {

struct ChangeFlags {
  std::string horizon, restart, warm_up, storage, checkpoint_age;
  int threads = 0;
};
void add_change_flags(Command& command, const std::shared_ptr<ChangeFlags>& flags);
/// Returns the options, or an error about the flag whose value is not a duration or rate.
Result<adapt::ChangeOptions> change_options(const Context& context, const ChangeFlags& flags);

/// Holds the running plan and its job. The job is searched in the space that `plan` was asked for, where its result
/// states that.
struct RunningPlan {
  Plan plan;
  Job job;
};
/// Reads the plan, or returns the fault of the file.
Result<RunningPlan> running_plan(Context& context, const std::string& path);

}  // namespace espalier::cli
