// SPDX-License-Identifier: Apache-2.0
// What frameworks that have one strategy for all layers cannot be told.
#pragma once

#include <string>

#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::exchange {

/// check_failed, in the name of the framework: several pipelines, unequal replicas, layers with strategies of their own.
Status not_uniform(const Plan& plan, const std::string& engine);
/// The same kind of error: nodes of several sizes, or devices of the cluster that the plan leaves out, which no launcher of equal nodes can be told.
Status not_on_equal_nodes(const Job& job, const Plan& plan, const std::string& engine);
/// The same kind of error of anything else.
Error cannot_say(const std::string& engine, const std::string& found, const std::string& expected);

}  // namespace espalier::exchange
