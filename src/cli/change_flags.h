// SPDX-License-Identifier: Apache-2.0
// What moves are priced with: flags that what-if, replan and plans over traces share.
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
/// Or the flag whose value is no duration or rate.
Result<ChangeOptions> change_options(const Context& context, const ChangeFlags& flags);

/// The plan whose change is asked for, and the job it answers, searched in the space that `plan` was asked for where
/// its result says so.
struct RunningPlan {
  Plan plan;
  Job job;
};
/// Or what is wrong with the file.
Result<RunningPlan> running_plan(Context& context, const std::string& path);

}  // namespace espalier::cli
