// SPDX-License-Identifier: Apache-2.0
// Efficiency and latency of fabric levels from nccl-tests: the two scalars of each level that the collective model
// (src/cost/collective.h) reads, fitted to all tables at once.
//
//   minimise   Σ w_i H( log(t_i/T_i) / 0.15 ) + Σ_levels (log(e/e₀)/0.3)² + (log(α/α₀)/0.7)²
//
// t from the collective model for the group of the table (ranks per node × nodes), T measured. Messages of 1 MiB and more count
// fully, shorter ones a quarter (protocols that the model does not have switch there); a table counts for eight rows at most, since its
// rows share one fabric and one moment. A network level that some ranks of a node use alone has the bandwidth that they get alone.
// What no table determines (posterior sigma above 0.9 of the prior's) stays as it is.
#pragma once

#include <string>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/result.h"
#include "planner/calibration_file.h"
#include "runlog/nccl_tests.h"

namespace espalier::calibrate {

struct LevelFit {
  CalibratedLevel level;
  double prior_efficiency = 0, prior_latency_s = 0;
  double efficiency_sigma = 0, latency_sigma = 0;  ///< posterior, of the logarithm
  bool efficiency_identified = false, latency_identified = false;
};

struct TableFit {
  std::string where;
  runlog::CollectiveTest test = runlog::CollectiveTest::all_reduce;
  std::int64_t ranks = 0, nodes = 0, rows = 0;  ///< rows of 1 MiB and more
  double before = 0, held_out = 0;              ///< median of |t/T − 1| over these rows; held out: five folds of rows
};

struct FabricFit {
  std::vector<LevelFit> levels;  ///< those that a table says something about
  std::vector<TableFit> tables;
  double before = 0, held_out = 0;  ///< the same over all tables
  std::vector<std::string> warnings;
  [[nodiscard]] std::vector<CalibratedLevel> calibrated() const;
};

/// `cluster`: uniform, with at least the nodes and devices per node of every table.
Result<FabricFit> fit_fabric(const Cluster& cluster, const std::vector<runlog::NcclTable>& tables);

/// Seconds of one message of a table by the collective model.
double modelled_s(const Cluster& cluster, const runlog::NcclTable& table, double bytes);

}  // namespace espalier::calibrate
