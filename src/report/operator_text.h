// SPDX-License-Identifier: Apache-2.0
// Writes the operators of a partitioned block as a table, and the meaning of a partition sequence in words.
#pragma once

#include <string>

#include "espalier/planner.h"

namespace espalier::report {

/// Describes what a device does for a sequence such as "attn.qkv K,P2": "each device 1/2 of the outputs …".
std::string partition_meaning(const OperatorReport& report);

/// Writes the table of the answer; empty without partitions.
std::string operator_section(const PlannerResult& result);

}  // namespace espalier::report
