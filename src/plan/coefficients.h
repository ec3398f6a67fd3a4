// SPDX-License-Identifier: Apache-2.0
// The fitted coefficients of engines as a table: name, physical range, prior. One place for the reader, the fit and the
// docs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/result.h"
#include "plan/framework_coefficients.h"

namespace espalier {

/// One coefficient. Multipliers (`additive` false) are fitted as logarithms: log(x/prior) ~ N(0, sigma). Additive ones
/// in their own unit around the prior with `sigma` of that unit. Neither leaves [low, high].
struct CoefficientField {
  std::string_view name;
  double FrameworkCoefficients::*member;
  double low, high, prior, sigma;
  bool additive;
  std::string_view meaning;
  bool pooled = true;  ///< what engines have in common is a prior for the others; false: of one engine's making
};
std::span<const CoefficientField> coefficient_fields();

/// data/calibration/frameworks.yaml (schema espalier.framework-calibration/1).
struct FrameworkCalibration {
  std::vector<std::string> sources;  ///< `source` of the runs that were fitted to
  std::vector<std::pair<std::string, FrameworkCoefficients>> engines;
};
Result<FrameworkCalibration> read_framework_calibration(std::string_view yaml, const std::string& where);
/// The one that ships.
const FrameworkCalibration& framework_calibration();

}  // namespace espalier
