// SPDX-License-Identifier: Apache-2.0
// Defines the fitted coefficients of fabrics as tables: name, physical range, prior. The reader and the fit share
// them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/document.h"
#include "cluster/calibration.h"
#include "cluster/catalogue.h"
#include "espalier/result.h"

namespace espalier::cluster {

/// Describes one coefficient of a level (equations: cost/collective.h). It is fitted as a logarithm: log(x/prior) ~
/// N(0, sigma), inside [low, high].
struct FabricField {
  std::string_view name;
  double low, high, prior, sigma;
  double (*get)(const FabricLevel&);
  void (*set)(FabricLevel&, double);
  std::string_view meaning;
};
std::span<const FabricField> fabric_fields();

/// Returns the coefficients of compute overlapped with a collective: the same three scalars for every device
/// (cost/overlap.h).
std::span<const EfficiencyField> overlap_fields();

/// Holds the coefficients that the file states. They belong to a fabric (by name), to the usual networks of a kind,
/// or to one cluster with published runs. (data/framework_defaults.yaml refers to its name.)
struct FabricCalibration {
  std::string fabric;                   ///< a template of data/devices.yaml, or a cluster; empty for networks
  FabricKind kind = FabricKind::other;  ///< kind of network
  std::string basis;                    ///< one sentence: which tables, how well
  std::vector<std::pair<const FabricField*, double>> values;
};
struct FabricCalibrations {
  std::vector<FabricCalibration> fabrics, networks, clusters;
  std::vector<std::pair<double DeviceEfficiency::*, double>> overlap;
  std::string overlap_basis;
};

/// Reads data/calibration/fabrics.yaml (schema espalier.fabric-calibration/1).
Result<FabricCalibrations> read_fabric_calibration(std::string_view yaml, const std::string& where);

/// Writes the coefficients as keys of a cluster description's `inter_node` or `intra_node`.
void write_level(base::JsonWriter& w, const FabricCalibration& c);

/// Returns the shipped calibrations.
const FabricCalibrations& fabric_calibrations();

/// Writes the coefficients over the catalogue: templates by name, usual networks by kind, overlap of all devices whose
/// node has links between chips.
void apply(const FabricCalibrations& calibrations, Catalogue& catalogue);

}  // namespace espalier::cluster
