// SPDX-License-Identifier: Apache-2.0
// Implements `espalier calibrate`, which turns a user's measured steps and nccl-tests output into a calibration file
// and a report of its accuracy. The fabric is fitted first (user_fabric.h). The runs are then predicted on it and
// adapt the coefficients (user_fit.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/user_fabric.h"
#include "calibrate/user_fit.h"
#include "calibrate/user_memory.h"
#include "calibrate/user_runs.h"
#include "espalier/calibrate.h"

namespace espalier::calibrate {

struct UserCalibration {
  std::string device, engine;  ///< engine empty: only the fabric
  UserRuns runs;
  std::optional<UserFit> fit;
  std::optional<UserFabric> fabric;
  std::optional<MemoryFit> memory;
};

/// Returns a name of the device catalogue, or the only one that begins with `name` ("h100-sxm").
Result<std::string> resolve_device(const std::string& name);

struct UserInputs {
  std::string device;
  UserRuns runs;
  std::vector<runlog::NcclTable> tables;
  std::optional<Cluster> cluster;  ///< where the tables were measured; none: the device's usual nodes
  int threads = 1;
};

Result<UserCalibration> calibrate_user(UserInputs inputs);

/// Writes the part of the file that states fabric levels; empty where none is determined.
std::string fabric_lines(const UserFabric& fabric);
/// Writes the file, schema espalier.calibration/1.
std::string to_yaml(const UserCalibration& calibration);

}  // namespace espalier::calibrate
