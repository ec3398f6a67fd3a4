// SPDX-License-Identifier: Apache-2.0
// A user's own calibration: what `espalier calibrate` writes, and what a job, a plan and `validate` accept (schema
// espalier.calibration/1, docs/file-formats.md). It replaces the coefficients of one engine on one device, and those of
// fabric levels (src/cluster/fabric_calibration.h), by name.
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

/// A fabric level as measured. Levels are matched by name and by the side of the node's edge they lie on.
struct CalibratedLevel {
  std::string name;
  bool inside_node = true;
  std::vector<std::pair<const cluster::FabricField*, double>> values;  ///< in the field's unit
  double direct_bytes = 0;                                             ///< FabricLevel::direct_bytes; 0: not said
};

/// What compute and a collective beside it were seen to do to each other (cost/overlap.h): both at least 1.
struct MeasuredOverlap {
  double compute_slowdown = 1, communication_slowdown = 1;
  bool operator==(const MeasuredOverlap&) const = default;
};

}  // namespace espalier::job

namespace espalier {

struct Calibration {
  std::string name;            ///< file name without extension
  std::string source, hash;    ///< canonical JSON and its content hash, copied into plans
  std::string device, engine;  ///< catalogue names; engine empty: no coefficients, fabric alone
  FrameworkCoefficients coefficients;
  double allocator_reserve = -1;  ///< share that the allocator holds beyond the tensors; < 0: what ships for the engine
  std::vector<job::CalibratedLevel> fabric;
  std::optional<job::MeasuredOverlap> overlap;  ///< none: the device's
  std::shared_ptr<const profile::MeasuredOperators>
      operators;                 ///< what `espalier profile` measured; null: the device model's times
  std::int64_t runs = 0;         ///< measured runs it was fitted to
  std::string cross_validation;  ///< what was held out, in words; empty or "none…": nothing, as far as the file says
  double error_before = 0, error_after = 0;        ///< median of |predicted/measured − 1|; after: on what was held out,
                                                   ///< 0
                                                   ///< without
  std::vector<std::string> warnings;               ///< coefficients far from what ships
  double level = 0.8, low = 1, high = 1;           ///< interval, as factors of the prediction
                                                   ///< (planner/own_confidence.h)
  std::int64_t devices_low = 0, devices_high = 0;  ///< devices of the smallest and the largest run
};

}  // namespace espalier

namespace espalier::job {

/// Writes the values over the levels that are named.
void apply_fabric(Cluster& cluster, const std::vector<CalibratedLevel>& levels);
/// Writes them over those of every device.
void apply_overlap(Cluster& cluster, const MeasuredOverlap& overlap);

/// A sentence for a coefficient that lies three prior sigmas or more from what ships: the prior holds such a machine
/// for next to impossible, so that the runs measured something else, or are wrong. Empty: it lies nearer.
std::string far_from_shipped(std::string_view name, double widths, double value, double shipped);

}  // namespace espalier::job
