// SPDX-License-Identifier: Apache-2.0
#include "calibrate/user_memory.h"
#include "plan/engine.h"

#include <algorithm>
#include <cmath>

namespace espalier::calibrate {
namespace {

constexpr double kOfRuns = 0.05, kOfEngines = 0.10;
constexpr double kMostReserve = 0.5;

double error_of(double predicted, double measured) { return std::abs(predicted / measured - 1); }

}  // namespace

std::optional<MemoryFit> fit_memory(const std::vector<UserRow>& rows, const EngineModel& engine) {
  MemoryFit fit;
  fit.shipped = fit.reserve = engine.memory.allocator_reserve;
  std::vector<std::pair<double, double>> reserved;  // tensors, measured
  for (const UserRow& r : rows) {
    const RunResult& run = r.row.result;
    if (!run.measured_bytes || !run.predicted_bytes) continue;
    const auto predicted = static_cast<double>(*run.predicted_bytes), measured = static_cast<double>(*run.measured_bytes);
    if (run.memory_kind == "reserved") {
      reserved.emplace_back(predicted / (1 + fit.shipped), measured);
    } else if (run.memory_kind == "allocated") {
      ++fit.allocated_runs;
      fit.allocated += error_of(predicted, measured);
    }
  }
  fit.reserved_runs = static_cast<std::int64_t>(reserved.size());
  if (fit.reserved_runs + fit.allocated_runs == 0) return std::nullopt;
  if (fit.allocated_runs > 0) fit.allocated /= static_cast<double>(fit.allocated_runs);
  if (reserved.empty()) return fit;
  const double n = static_cast<double>(reserved.size()), of_runs = 1 / (kOfRuns * kOfRuns),
               of_engines = 1 / (kOfEngines * kOfEngines);
  double sum = 0;
  for (const auto& [tensors, measured] : reserved) sum += measured / tensors - 1;
  fit.reserve = std::clamp((sum * of_runs + fit.shipped * of_engines) / (n * of_runs + of_engines), 0.0, kMostReserve);
  for (const auto& [tensors, measured] : reserved) {
    fit.before += error_of(tensors * (1 + fit.shipped), measured) / n;
    fit.after += error_of(tensors * (1 + fit.reserve), measured) / n;
  }
  return fit;
}

}  // namespace espalier::calibrate
