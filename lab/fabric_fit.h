// SPDX-License-Identifier: Apache-2.0
// Coefficients of fabrics, networks and overlap from published tables (data/operators), with the cost model's own
// functions.
//
//   fabric    r = log(collective_s / measured) over operations, group sizes and message sizes; five scalars
//             (efficiency, hop, start, ramp,
//             small group), priors of cluster/fabric_calibration.h, Huber's loss from 10 %
//   network   the same over all-gathers across nodes, with efficiency and congestion free
//   overlap   r = log(pair_time(c, w, κ) / measured) of a GEMM (w alone) and an all-gather (c alone) run at once; κ
//             from cost/overlap.h with the
//             all-gather's own measured bus rate; three scalars for all devices, Huber's loss from 3 %
// Two rows of three are fitted, the third (by a hash of the row) is held out and judged; the shipped coefficients are
// from the two.
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

/// One measured collective on `inside` ranks of each of `nodes` nodes.
struct CollectiveSample {
  Collective operation = Collective::all_gather;
  std::int64_t inside = 1, nodes = 1;
  double bytes = 0;  ///< S of cost/collective.h
  double seconds = 0;
  bool held = false;
};

/// A GEMM and an all-gather, alone and at once.
struct OverlapSample {
  double communication_s = 0, compute_s = 0, together_s = 0;
  double traffic = 0;  ///< bus rate of the all-gather alone / memory bandwidth
  bool held = false;
};

struct Residuals {
  std::int64_t rows = 0, held_rows = 0;
  double median = 0, p90 = 0, held_median = 0, held_p90 = 0;  ///< of |predicted/measured − 1|
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

/// Fits the named coefficients of `levels[fitted]`; the others stay. `latency_us`: prior of the hop where it is not
/// that of a link.
FabricFit fit_level(const std::vector<CollectiveSample>& samples, const std::vector<FabricLevel>& levels, std::size_t fitted,
                    const std::vector<std::string>& names, std::optional<double> latency_us = std::nullopt);
OverlapFit fit_overlap(const std::vector<OverlapSample>& samples);

/// All fits from the tables in `directory`, as the text of data/calibration/fabrics.yaml. Entries of `before` that no
/// table covers (priors) are kept.
Result<std::string> calibrate_fabrics(const std::string& directory, const cluster::FabricCalibrations& before);

}  // namespace espalier::lab
