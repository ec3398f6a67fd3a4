// SPDX-License-Identifier: Apache-2.0
// Two ways of judging predictions by runs that the coefficients have not seen.
//
//   S  the whole source left out: coefficients of its engines from the other sources, or the pooled prior where no
//   other source has that
//      engine. What a user of a new cluster gets.
//      The same of what devices keep of their kernels' rates while they train (training_fit.h): fitted without the
//      source.
//
//   G  grouped folds inside the source: groups = (model, GPU count) dealt to `folds` folds in the order of their names,
//   largest group
//      first to the emptiest fold; of a source with one group alone its configurations. What a user gets after
//      `espalier calibrate` on some runs.
//      Each fold is predicted with what S gave, or with engines fitted on the other folds, the prior being what S gave,
//      or with engines and devices. Devices
//      are fitted where there are several chips: of one alone the engine's coefficients say it. The other folds decide
//      which, for models with and without
//      experts apart. Each is left out in turn beside the one that is judged; of a single one its configurations are.
//      At most 80 rows teach then. Runs of
//      one model may say nothing of another: what S gave is kept then.
//
// Memory: where an allocator's reserved memory was measured, one scalar of the engine is fitted, the reserve r: peak =
// (1 + r)·tensors, median of measured/tensors − 1. S takes it from other sources with the engine, else the pooled
// median, shrunk to the prior 6 % with the weight of 10 runs; G from the other folds, shrunk to S's. Where allocated
// bytes were measured nothing is fitted: both are the model's.
//
// Intervals: a row's 80 % interval is from log(measured/predicted) of other rows (spread.h): under S those of the other
// sources, which share an error each, of its engine shrunk to all; under G those of the other folds of its source,
// whose groups share an error each, shrunk to what the other sources have under G.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lab/framework_fit.h"
#include "lab/interval_fit.h"
#include "lab/training_fit.h"

namespace espalier::lab {

struct Judged {
  double predicted_s = 0, low_s = 0, high_s = 0;
  int fold = -1;
};

/// What is predicted with when a source is left out.
struct Known {
  std::map<std::string, FrameworkCoefficients> engines;  ///< those of the source
  TrainingValues devices;
};

struct Protocols {
  std::vector<Judged> shipped, source_out, grouped;  ///< by row of the corpus; rows that are not timed keep zeros
  std::map<std::string, FrameworkFit> fits;          ///< by engine, on all rows: what ships
  Prior pooled;
  TrainingFit training;                                 ///< devices, on all rows: what ships
  std::vector<double> source_out_bytes, grouped_bytes;  ///< by row; 0 where no memory was measured
  planner::IntervalTable intervals;                     ///< from the residuals of S on all rows: what ships
  std::map<std::string, Known> left_out;                ///< by family: what S predicts with
};

struct ProtocolOptions {
  FrameworkFitOptions fit;
  int folds = 5;
  IntervalOptions interval;
  TrainingFitOptions training;
  double rows_inside = 8;           ///< G: independent rows that runs of a device count for where devices are fitted
  int rounds = 3;                   ///< engines with the devices held, devices with the engines held
  bool grouped = true;              ///< G takes most of the time
  std::vector<std::string> judged;  ///< families that are judged: prefixes of their names; empty: all
  bool only_shipped = false;        ///< nothing is fitted: rows as they are predicted with what ships, under every
                                    ///< heading
};

/// Fills source_out_bytes and grouped_bytes; needs the folds.
void judge_memory(const calibrate::Corpus& corpus, Protocols& p);

/// Fold of each row. Groups are dealt out, largest first to the emptiest fold, names decide ties; of a single group its
/// configurations.
std::vector<int> folds_of(const std::vector<const calibrate::CorpusRow*>& rows, int folds);
/// G of the rows of one family: seconds and folds.
void judge_grouped(const calibrate::Corpus& corpus, const std::string& family, const Known& known, const ProtocolOptions& options,
                   std::vector<Judged>& out);

/// Changes the devices of the rows to what is fitted; they keep what was fitted to all rows.
Protocols run_protocols(calibrate::Corpus& corpus, const ProtocolOptions& options);

}  // namespace espalier::lab
