// SPDX-License-Identifier: Apache-2.0
// The operators of a partitioned block as a table, and what a partition sequence means in words.
#pragma once

#include <string>

#include "espalier/planner.h"

namespace espalier::report {

/// "attn.qkv K,P2": what a device does: "each device 1/2 of the outputs …".
std::string partition_meaning(const OperatorReport& report);

/// Table of the answer; empty without partitions.
std::string operator_section(const PlannerResult& result);

}  // namespace espalier::report
