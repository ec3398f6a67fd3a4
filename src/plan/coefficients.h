// SPDX-License-Identifier: Apache-2.0
// Defines the fitted coefficients of engines as a table (name, physical range, prior) that the reader, the fit and
// the documentation share.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/era.h"
#include "espalier/result.h"
#include "plan/framework_coefficients.h"

namespace espalier {

/// Describes one coefficient. Multipliers (`additive` false) are fitted as logarithms: log(x/prior) ~ N(0, sigma).
/// Additive ones are fitted in their own unit around the prior, with `sigma` in that unit. Neither leaves [low, high].
struct CoefficientField {
  std::string_view name;
  double FrameworkCoefficients::*member;
  double low, high, prior, sigma;
  bool additive;
  std::string_view meaning;
  /// True if the value that engines have in common is a prior for the others; false: the coefficient is specific
  /// to one engine.
  bool pooled = true;
};
std::span<const CoefficientField> coefficient_fields();

/// Holds data/calibration/frameworks.yaml (schema espalier.framework-calibration/1).
struct FrameworkCalibration {
  std::vector<std::string> sources;  ///< `source` of the runs in the fit
  /// Holds what was fitted to one engine in one era (base/era.h).
  struct Row {
    std::string engine;
    base::Era era;
    FrameworkCoefficients coefficients;
  };
  std::vector<Row> rows;

  /// Returns what was fitted to an engine at a version (none: the newest known); nothing if none was.
  [[nodiscard]] std::optional<FrameworkCoefficients> of(std::string_view engine,
                                                        const std::optional<base::Version>& version) const;
};
Result<FrameworkCalibration> read_framework_calibration(std::string_view yaml, const std::string& where);
/// Returns the calibration that ships with the program.
const FrameworkCalibration& framework_calibration();

}  // namespace espalier
