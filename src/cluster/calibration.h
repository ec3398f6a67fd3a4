// SPDX-License-Identifier: Apache-2.0
// Defines the fitted coefficients of a device as a table: name, physical range, prior. The readers, the fit and the
// docs share it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/result.h"

namespace espalier::cluster {

/// Describes one coefficient of DeviceEfficiency. All are positive and fitted as logarithms: log(x/prior) ~ N(0,
/// sigma), inside [low, high].
struct EfficiencyField {
  std::string_view name;
  double DeviceEfficiency::*member;
  double low, high, prior, sigma;
  std::string_view meaning;
};
std::span<const EfficiencyField> efficiency_fields();

/// Holds the coefficients of one device of the catalogue.
struct DeviceCalibration {
  std::string device;
  std::vector<std::pair<double DeviceEfficiency::*, double>> values;  ///< values stated in the file
  std::optional<double> kernel_floor_us;
  std::string range;  ///< shapes of the fit
  std::string basis;  ///< one sentence: which tables, how well
};

/// Reads data/calibration/devices.yaml (schema espalier.device-calibration/1).
Result<std::vector<DeviceCalibration>> read_device_calibration(std::string_view yaml, const std::string& where);

/// Writes the stated coefficients over the catalogue's priors and adds the basis to the sources.
void apply(const DeviceCalibration& calibration, DeviceKind& device);
/// Applies values fitted to training runs (data/calibration/training.yaml) in the same way. Only operators decide
/// whether the device counts as calibrated.
void apply_training(const DeviceCalibration& calibration, DeviceKind& device);

}  // namespace espalier::cluster
