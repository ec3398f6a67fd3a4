// SPDX-License-Identifier: Apache-2.0
// Fits coefficients of fabrics, networks and overlap to published tables (data/operators) with the functions of
// the cost model.
//
//   fabric    r = log(collective_s / measured) over operations, group sizes and message sizes. Five scalars are free:
//             efficiency, hop, start, ramp and small group. Priors are in cluster/fabric_calibration.h; Huber's loss is
//             linear beyond 10 %.
//   network   r is the same over all-gathers across nodes, with efficiency and congestion free.
//   overlap   r = log(pair_time(c, w, κ) / measured) of a GEMM (w alone) and an all-gather (c alone) that run at once.
//             κ comes from cost/overlap.h with the measured bus rate of this all-gather. Three scalars cover all
//             devices; Huber's loss is linear beyond 3 %.
//
// Two of three rows are fitted. The third, chosen by a hash of the row, is held out and judged. The shipped
// coefficients come from the fitted rows alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/fabric_calibration.h"
#include "cost/overlap.h"
#include "espalier/result.h"
#include "lab/operator_tables.h"

namespace espalier::lab {

enum class Collective { all_gather, reduce_scatter, all_reduce, all_to_all };

/// Holds one measured collective on `inside` ranks of each of `nodes` nodes.
struct CollectiveSample {
  Collective operation = Collective::all_gather;
  std::int64_t inside = 1, nodes = 1;
  double bytes = 0;  ///< S in cost/collective.h
  double seconds = 0;
  bool held = false;
};

/// Holds the times of a GEMM and an all-gather, each alone and both at once.
struct OverlapSample {
  double communication_s = 0, compute_s = 0, together_s = 0;
  double traffic = 0;  ///< bus rate of the all-gather alone / memory bandwidth
  bool held = false;
};

struct Residuals {
  std::int64_t rows = 0, held_rows = 0;
  double median = 0, p90 = 0, held_median = 0, held_p90 = 0;  ///< quantiles of |predicted/measured − 1|
};

struct FabricFit {
  cluster::FabricCalibration calibration;
  Residuals residuals;
};
struct OverlapFit {
  std::vector<std::pair<const cluster::EfficiencyField*, double>> values;
  Residuals residuals;
};

double predicted_s(const CollectiveSample& sample, const std::vector<FabricLevel>& levels);

/// Fits the named coefficients of `levels[fitted]`; the others keep their values. `latency_us` is the prior of the
/// hop where it differs from that of a link.
FabricFit fit_level(const std::vector<CollectiveSample>& samples, const std::vector<FabricLevel>& levels, std::size_t fitted,
                    const std::vector<std::string>& names, std::optional<double> latency_us = std::nullopt);
OverlapFit fit_overlap(const std::vector<OverlapSample>& samples);

/// Runs all fits on the tables in `directory` and returns the text of data/calibration/fabrics.yaml. Keeps entries of
/// `before` that no table covers (priors).
Result<std::string> calibrate_fabrics(const std::string& directory, const cluster::FabricCalibrations& before);

}  // namespace espalier::lab
