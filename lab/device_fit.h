// SPDX-License-Identifier: Apache-2.0
// Fits operator coefficients of a device to published operator times, with the functions of the cost model
// (src/cost/operator_cost.h). Rows are thinned by their hash (operator_tables.h): the kept rows are fitted, all
// others are held out. The coefficients are therefore the same with the full tables as with the thinned ones. A GEMM
// is weighted by the root of its operations, from 0.05 up to 1 at 10¹². A training step spends its time in large
// products, and one rate does not hold for all sizes. Shapes that training does not use have the weight 0.01.
//
// Whatever a table measures in addition to the operator is fitted with it and not shipped. This covers the fixed
// time of the program's kernels, the casts of an fp8 GEMM, rotation and cache writes before attention, and
// permutation around experts.
#pragma once

#include <string>
#include <vector>

#include "espalier/cluster.h"
#include "lab/operator_tables.h"

namespace espalier::lab {

/// Holds how well one kind of operator of one table is predicted, in log errors.
struct OperatorResidual {
  std::string table, what;
  std::size_t fitted = 0, held_out = 0;  ///< rows
  /// Holds quantiles of |log(predicted/measured)| over rows that were not fitted, or over all rows if none
  /// was held out.
  double median = 0, p90 = 0;
  double training_median = 0, training_p90 = 0;  ///< also quantiles, over training shapes (see `range`)
};

struct FittedValue {
  std::string name;
  double value = 0, standard_error = 0;  ///< relative
};

struct DeviceFit {
  std::string device;
  std::vector<FittedValue> values;
  std::vector<OperatorResidual> residuals;
  std::string range, twin;
  double exponentials = 1;  ///< ratio that the tables state
};

/// Names the tables that describe a device of the catalogue.
struct DeviceTables {
  std::string device;
  std::string gemm, attention, moe;  ///< file names; empty = none
  std::string operators, hardware;   ///< a profile of GPT operators and the value of its `hw` column
  /// Names a device with the same chip, whose fit supplies what these tables do not determine.
  std::string twin;
  double exponentials = 1;  ///< computed in the time in which the twin computes one
};
const std::vector<DeviceTables>& device_tables();
/// Returns the thinning step of a table; 1 keeps every row.
std::uint64_t thinning_of(const OperatorTable& table);

/// Fits every coefficient that the tables under `directory` determine. Starts from priors and from the
/// twin among `earlier`.
Result<DeviceFit> fit_device(const DeviceTables& tables, const std::string& directory, const std::vector<DeviceFit>& earlier);
/// Fits all of device_tables() in order, then copies what a device lacks from its twin.
Result<std::vector<DeviceFit>> fit_devices(const std::string& directory);

/// Returns the text of data/calibration/devices.yaml.
std::string calibration_yaml(const std::vector<DeviceFit>& fits);

}  // namespace espalier::lab
