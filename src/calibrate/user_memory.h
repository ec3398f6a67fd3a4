// SPDX-License-Identifier: Apache-2.0
// What own peaks of memory say of an engine's allocator: the share r that it holds beyond the tensors, peak = tensors ·
// (1 + r).
//
//     r = (n·r̄/σ² + shipped/σ₀²) / (n/σ² + 1/σ₀²)        r̄ mean of measured/tensors − 1 over the n runs whose
//                                                         reserved memory was measured
// σ = 0.05, how far runs of one engine lie apart; σ₀ = 0.10, how far engines do. Within 0 … 0.5. Where only allocated
// bytes were measured nothing is
// adapted: what they miss by is a tensor's, and is reported.
#pragma once

#include <optional>
#include <vector>

#include "calibrate/user_runs.h"

namespace espalier::calibrate {

struct MemoryFit {
  std::int64_t reserved_runs = 0, allocated_runs = 0;
  double shipped = 0, reserve = 0;  ///< r; equal without reserved runs
  /// Means of |predicted/measured − 1|: reserved runs as shipped and with `reserve`, allocated runs.
  double before = 0, after = 0, allocated = 0;
};

/// Rows have the engine `engine`. Nothing: no row has a measured peak.
std::optional<MemoryFit> fit_memory(const std::vector<UserRow>& rows, const EngineModel& engine);

}  // namespace espalier::calibrate
