// SPDX-License-Identifier: Apache-2.0
// Computes how much of the memory limit a search leaves free, because a predicted peak is not a measured one.
//
// The default is the half-width h of the memory model's 80 % error for the engine and device, as a share of the
// limit. Four in five peaks measured so far were within ±h of the prediction (data/calibration/memory.yaml,
// written by scripts/accuracy.py).
//
//     h = 80 % quantile of |measured/predicted − 1|    over the mixture
//         (2·n_ed·F_ed + n_e·F_e + n_0·F_0) / (2·n_ed + n_e + n_0).
//
// F_ed is the distribution of runs of this engine on this device, F_e of this engine on others, and F_0 of all runs
// (each source alike, n_0 = 20 runs). Each n counts the runs, at most 60 from one source. Predictions follow
// protocol S (lab/accuracy-report.md): the source was not seen when the allocator's reserve was fitted. An engine
// without runs has F_0 alone.
//
// The margin belongs to the space of `plan`: its answer is the fastest configuration that fits into limit · (1 −
// margin). `fits` of a prediction refers to the limit itself.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "espalier/planner.h"

namespace espalier::planner {

struct MemoryError {
  double half_width = 0.15;
  std::int64_t runs = 0;  ///< runs of this engine on this device
  std::string basis;
};
/// Maps (engine, device) to its error; engine "" and device "" stand for any other.
using MemoryErrorTable = std::map<std::pair<std::string, std::string>, MemoryError>;
Result<MemoryErrorTable> read_memory_errors(std::string_view yaml, const std::string& where);
const MemoryErrorTable& shipped_memory_errors();
/// Returns the error of the pair; else the engine's, else the one for anything.
MemoryError memory_error_for(const MemoryErrorTable& table, const std::string& engine, const std::string& device);

struct MemoryMargin {
  double share = 0;   ///< share of the limit
  std::string basis;  ///< in words
};
/// Returns the margin of the job, or the default if the job sets none.
MemoryMargin memory_margin_of(const Job& job);
/// Returns limit · (1 − margin), rounded down.
std::int64_t room_of(std::int64_t limit_bytes, double margin);
/// Returns the bytes below which a plan of the job must stay: usable memory · (1 − margin), rounded down.
std::int64_t memory_room_bytes(const Job& job);
/// Returns the job on a cluster whose devices each have that room; this job is searched.
Job with_memory_room(const Job& job);

}  // namespace espalier::planner
