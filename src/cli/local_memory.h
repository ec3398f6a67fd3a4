// SPDX-License-Identifier: Apache-2.0
// Checks memory before `run --local` starts a process for every device of a plan: their total need, and the free
// memory of this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "espalier/documents.h"
#include "espalier/planner.h"

namespace espalier::cli {

struct LocalNeed {
  std::int64_t processes = 0;
  /// All processes together need these bytes: weights, gradients, optimizer states and activations, without a GPU
  /// context.
  std::int64_t bytes = 0;
};

/// Returns the need by the plan's own simulation.
Result<LocalNeed> local_need(const Plan& plan);
/// Returns MemAvailable of /proc/meminfo; nothing where the text has none.
std::optional<std::int64_t> available_of(std::string_view meminfo);
/// Returns the free memory of this machine, or of the control group where that has less; nothing where it cannot be
/// read.
std::optional<std::int64_t> available_memory();
/// Fails (limit) where the processes need more than is available.
Status fits_here(const LocalNeed& need, std::optional<std::int64_t> available);

}  // namespace espalier::cli
