// SPDX-License-Identifier: Apache-2.0
// What is fitted of a device, as a table: name, physical range, prior. One place for the readers, the fit and the docs.
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

/// One coefficient of DeviceEfficiency. All are positive and fitted as logarithms: log(x/prior) ~ N(0, sigma), inside
/// [low, high].
struct EfficiencyField {
  std::string_view name;
  double DeviceEfficiency::*member;
  double low, high, prior, sigma;
  std::string_view meaning;
};
std::span<const EfficiencyField> efficiency_fields();

/// Coefficients of one device of the catalogue.
struct DeviceCalibration {
  std::string device;
  std::vector<std::pair<double DeviceEfficiency::*, double>> values;  ///< those that the file states
  std::optional<double> kernel_floor_us;
  std::string range;  ///< shapes of the fit
  std::string basis;  ///< one sentence: which tables, how well
};

/// Reads data/calibration/devices.yaml (schema espalier.device-calibration/1).
Result<std::vector<DeviceCalibration>> read_device_calibration(std::string_view yaml, const std::string& where);

/// Writes the stated coefficients over the catalogue's priors and adds the basis to the sources.
void apply(const DeviceCalibration& calibration, DeviceKind& device);
/// The same for what was fitted to training runs (data/calibration/training.yaml): the device stays calibrated, or not,
/// by its operators.
void apply_training(const DeviceCalibration& calibration, DeviceKind& device);

}  // namespace espalier::cluster
