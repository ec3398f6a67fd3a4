// SPDX-License-Identifier: Apache-2.0
// Converts a plan to flags or keys of a configuration format: those that describe how the job runs, without its model
// and data. They are the flags that the exporters write, so that an edited file and an exported one agree.
#pragma once

#include <map>
#include <string>

#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::exchange {

/// Maps keys to values, "on" for a switch. Keys are flags with their dashes, or paths ("zero_optimization.stage").
/// Keys that begin with '@' are arguments of the training script, which the file does not hold ("@micro-batch").
using PlanSettings = std::map<std::string, std::string>;
inline constexpr const char* kSwitch = "on";

/// Returns the settings. Fails (check_failed), naming the rule, where the format cannot express the plan.
Result<PlanSettings> plan_settings(const std::string& format, const Job& job, const Plan& plan);

}  // namespace espalier::exchange
