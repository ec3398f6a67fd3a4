// SPDX-License-Identifier: Apache-2.0
// Fits coefficients of fabric levels to a user's nccl-tests. They are those of src/cluster/fabric_calibration.h that
// the collective model (src/cost/collective.h) reads. All levels and tables are fitted at once, held at the shipped
// values by the priors of that table.
//
//   minimise   Σ w_i H( log(t_i/T_i) / 0.10 ) + Σ_levels Σ_fields (log(x/shipped)/σ_field)².
//
// t comes from the collective model for the group of the table (ranks per node × nodes); T is measured. Messages of 1
// MiB and more count fully, shorter ones a quarter, since training hardly has them. In tables of Espalier's own
// collectives, whose form is known, all count fully. A table counts for eight rows at most, since its rows share one
// fabric and one moment. A network level that some ranks of a node use alone has the bandwidth that they get alone.
// A coefficient that no table determines stays as shipped and is not written. Its posterior sigma is above 0.9 of the
// prior's, both at the fitted and at the shipped values.
#pragma once

#include <string>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/result.h"
#include "job/calibration_file.h"
#include "runlog/nccl_tests.h"

namespace espalier::calibrate {

struct LevelFit {
  struct Field {
    const cluster::FabricField* field = nullptr;
    double prior = 0, value = 0;
    double sigma = 0;  ///< posterior, of the logarithm
    bool identified = false;
  };
  std::string name;
  bool inside_node = true;
  std::vector<Field> fields;
  double direct_bytes = 0;  ///< as in the tables; 0: not of Espalier's collectives
};

struct TableFit {
  std::string where;
  runlog::CollectiveTest test = runlog::CollectiveTest::all_reduce;
  std::int64_t ranks = 0, nodes = 0, rows = 0;  ///< rows of 1 MiB and more
  double before = 0, held_out = 0;              ///< median of |t/T − 1| over these rows; held out: five folds of rows
};

struct UserFabric {
  std::vector<LevelFit> levels;  ///< levels that some table covers
  std::vector<TableFit> tables;
  double before = 0, held_out = 0;  ///< these errors over all tables
  std::vector<std::string> warnings;
  [[nodiscard]] std::vector<job::CalibratedLevel> calibrated() const;  ///< identified fields
};

/// Fits the tables. `cluster` is uniform, with at least the nodes and devices per node of every table.
Result<UserFabric> fit_user_fabric(const Cluster& cluster, const std::vector<runlog::NcclTable>& tables);

/// Returns the seconds of one message of a table by the collective model.
double modelled_s(const Cluster& cluster, const runlog::NcclTable& table, double bytes);

}  // namespace espalier::calibrate
