// SPDX-License-Identifier: Apache-2.0
// Reads a user's own calibration, which `espalier calibrate` writes, and which a job, a plan and `validate` accept
// (schema espalier.calibration/1, docs/file-formats.md). It replaces the coefficients of one engine on one device,
// and those of fabric levels (src/cluster/fabric_calibration.h), by name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/fabric_calibration.h"
#include "espalier/calibration.h"
#include "plan/framework_coefficients.h"
#include "profile/measured_operators.h"

namespace espalier::job {

/// Holds a fabric level as measured. Levels are matched by name and by their side of the node's edge.
struct CalibratedLevel {
  std::string name;
  bool inside_node = true;
  std::vector<std::pair<const cluster::FabricField*, double>> values;  ///< in the field's unit
  double direct_bytes = 0;                                             ///< FabricLevel::direct_bytes; 0: not given
};

/// Holds the measured slow-downs of compute and a concurrent collective (cost/overlap.h), both at least 1.
struct MeasuredOverlap {
  double compute_slowdown = 1, communication_slowdown = 1;
  bool operator==(const MeasuredOverlap&) const = default;
};

}  // namespace espalier::job

namespace espalier {

struct Calibration {
  std::string name;            ///< file name without extension
  std::string source, hash;    ///< canonical JSON and its content hash, copied into plans
  std::string device, engine;  ///< catalogue names; engine empty: no coefficients, only the fabric
  FrameworkCoefficients coefficients;
  /// This is the share that the allocator holds beyond the tensors; < 0 means the engine's shipped value.
  double allocator_reserve = -1;
  std::vector<job::CalibratedLevel> fabric;
  std::optional<job::MeasuredOverlap> overlap;  ///< none: the device's
  std::shared_ptr<const profile::MeasuredOperators>
      operators;          ///< measurements of `espalier profile`; null: the device model's times
  std::int64_t runs = 0;  ///< number of measured runs in the fit
  /// This text describes the held-out runs. Empty or "none…" means that the file states none.
  std::string cross_validation;
  /// These are medians of |predicted/measured − 1|. The one after the fit is on held-out runs, 0 without any.
  double error_before = 0, error_after = 0;
  std::vector<std::string> warnings;               ///< coefficients far from the shipped ones
  double level = 0.8, low = 1, high = 1;           ///< interval, as factors of the prediction (planner/own_confidence.h)
  std::int64_t devices_low = 0, devices_high = 0;  ///< devices of the smallest and the largest run
};

}  // namespace espalier

namespace espalier::job {

/// Overwrites the named levels with these values.
void apply_fabric(Cluster& cluster, const std::vector<CalibratedLevel>& levels);
/// Overwrites the slow-downs of every device.
void apply_overlap(Cluster& cluster, const MeasuredOverlap& overlap);

/// Returns a sentence for a coefficient that is three prior sigmas or more from the shipped one; empty where it is
/// nearer. The prior considers such a machine next to impossible, so that the runs measured something else, or are
/// wrong.
std::string far_from_shipped(std::string_view name, double widths, double value, double shipped);

}  // namespace espalier::job
