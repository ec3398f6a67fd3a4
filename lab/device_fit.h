// SPDX-License-Identifier: Apache-2.0
// Operator coefficients of a device from published operator times, with the functions that the cost model itself uses
// (src/cost/operator_cost.h). Rows are thinned by their hash (operator_tables.h): those kept are fitted, all others are
// held out, so that the coefficients are the same whether the full tables are there or only the thinned ones.
// A GEMM counts by the root of its operations, from 0.05 to 1 at 10¹² (a step spends its time in large products, and
// one rate does not hold for all sizes); shapes that training does not meet count 0.01.
//
// What a table holds beside the operator is fitted with it and not shipped: the fixed time of the kernels of its
// program, casts of an fp8 GEMM, rotation and cache writes before attention, permutation around experts.
#pragma once

#include <string>
#include <vector>

#include "espalier/cluster.h"
#include "lab/operator_tables.h"

namespace espalier::lab {

/// How one kind of operator of one table is predicted; log errors.
struct OperatorResidual {
  std::string table, what;
  std::size_t fitted = 0, held_out = 0;          ///< rows
  double median = 0, p90 = 0;                    ///< of |log(predicted/measured)| over rows that were not fitted (of all when
                                                 ///< there are
                                                 ///< none)
  double training_median = 0, training_p90 = 0;  ///< the same over shapes of training (what: see `range`)
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
  double exponentials = 1;  ///< as its tables say
};

/// Which tables describe which device of the catalogue.
struct DeviceTables {
  std::string device;
  std::string gemm, attention, moe;  ///< file names; empty = none
  std::string operators, hardware;   ///< a profile of GPT operators and the value of its `hw` column
  std::string twin;                  ///< device with the same chip: what these tables do not determine is taken from
                                     ///< its fit
  double exponentials = 1;           ///< that it computes in the time in which the twin computes one
};
const std::vector<DeviceTables>& device_tables();
/// Thinning step of a table; 1 = keeps every row.
std::uint64_t thinning_of(const OperatorTable& table);

/// Fits every coefficient that the tables under `directory` determine, starting from priors and from the twin among
/// `earlier`.
Result<DeviceFit> fit_device(const DeviceTables& tables, const std::string& directory, const std::vector<DeviceFit>& earlier);
/// All of device_tables(), in its order; then what each lacks is taken from its twin.
Result<std::vector<DeviceFit>> fit_devices(const std::string& directory);

/// The text of data/calibration/devices.yaml.
std::string calibration_yaml(const std::vector<DeviceFit>& fits);

}  // namespace espalier::lab
