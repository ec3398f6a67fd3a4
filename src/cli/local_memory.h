// SPDX-License-Identifier: Apache-2.0
// Before `run --local` starts a process for every device of a plan: what they need together, and what this machine has
// free.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "espalier/documents.h"
#include "espalier/planner.h"

namespace espalier::cli {

struct LocalNeed {
  std::int64_t processes = 0;
  std::int64_t bytes = 0;  ///< of all processes: weights, gradients, optimizer states and activations; no context of a
                           ///< GPU
};

/// By the plan's own simulation.
Result<LocalNeed> local_need(const Plan& plan);
/// MemAvailable of /proc/meminfo; nothing where the text has none.
std::optional<std::int64_t> available_of(std::string_view meminfo);
/// Free memory of this machine, or of the control group where that has less; nothing where it cannot be read.
std::optional<std::int64_t> available_memory();
/// limit: the processes need more than there is.
Status fits_here(const LocalNeed& need, std::optional<std::int64_t> available);

}  // namespace espalier::cli
