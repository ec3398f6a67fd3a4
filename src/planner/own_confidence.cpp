// SPDX-License-Identifier: Apache-2.0
#include "planner/own_confidence.h"

#include <cmath>

#include "base/format.h"

namespace espalier::planner {
namespace {

std::string judged(const Calibration& c) {
  const bool held_out = !c.cross_validation.empty() && c.cross_validation.rfind("none", 0) != 0 && c.error_after > 0;
  if (held_out)
    return cat("median error ", base::percent(c.error_after), " held out (", c.cross_validation, "), ",
               base::percent(c.error_before), " before");
  return cat("not cross-validated", c.cross_validation.empty() ? "" : cat(" (", c.cross_validation, ")"), ", median error ",
             base::percent(c.error_before), " before");
}

}  // namespace

std::optional<Confidence> calibrated_confidence(const Calibration& c, double seconds, std::int64_t devices) {
  if (c.runs == 0 || c.low >= c.high) return std::nullopt;
  double doublings = 0;
  const double n = static_cast<double>(devices);
  if (c.devices_low > 0 && devices < c.devices_low) doublings = std::log2(static_cast<double>(c.devices_low) / n);
  if (c.devices_high > 0 && devices > c.devices_high) doublings = std::log2(n / static_cast<double>(c.devices_high));
  const double wider = std::sqrt(1 + doublings * doublings / 4);
  std::string basis = cat("calibrated by ", std::to_string(c.runs), " of your runs on ", c.device, ", engine ", c.engine, " (",
                          c.name, " ", c.hash.substr(0, 8), "): ", judged(c));
  if (doublings > 0)
    basis += cat("; ", std::to_string(devices), " devices are outside the range of ", std::to_string(c.devices_low), " to ",
                 std::to_string(c.devices_high), " in these runs");
  for (const std::string& warning : c.warnings) basis += cat("; warning: ", warning);
  return Confidence{seconds * std::pow(c.low, wider), seconds * std::pow(c.high, wider), c.level, std::move(basis)};
}

}  // namespace espalier::planner
