// SPDX-License-Identifier: Apache-2.0
// Judges predictions in two ways, each by runs that the coefficients have not seen.
//
//   S  The whole source is left out. Coefficients of its engines come from the other sources, or from the pooled prior
//      where no other source has that engine. Device rates in training (training_fit.h) are also fitted without the
//      source. This is what a user of a new cluster gets.
//
//   G  Grouped folds inside the source. Groups (model, GPU count) are dealt to `folds` folds, largest first to the
//      emptiest fold and ties in the order of their names. In a source with a single group, its configurations are
//      dealt instead. This is what a user gets after `espalier calibrate` on some runs.
//      Each fold is predicted in one of three ways. The first is the result of S. The second fits the engines on the
//      other folds, with the result of S as the prior. The third fits engines and devices, where there are several
//      chips; for a single one the engine's coefficients absorb its rate.
//      The other folds choose the way, separately for models with and without experts. Each of them is left out in turn
//      together with the judged fold; if there is only one, its configurations are. At most 80 rows are fitted in this
//      choice. Runs of one model may carry no information about another; then the result of S is kept.
// Memory: where an allocator's reserved memory was measured, one scalar of the engine is fitted, the reserve r: peak
// = (1 + r)·tensors, median of measured/tensors − 1. S takes it from other sources with the engine, or else from the
// pooled median, shrunk to the prior 6 % with the weight of 10 runs. G takes it from the other folds, shrunk to that
// of S. Where allocated bytes were measured, nothing is fitted: both are the model's.
//
// Intervals: the 80 % interval of a row comes from log(measured/predicted) of other rows (spread.h). Under S these
// are rows of the other sources, which share an error each; those of its engine are shrunk to all. Under G they are
// rows of the other folds of its source, whose groups share an error each. They are shrunk to the errors of the other
// sources under G.
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

/// Holds the coefficients that predict a source when it is left out.
struct Known {
  std::map<std::string, FrameworkCoefficients> engines;  ///< engines of the source
  TrainingValues devices;
};

struct Protocols {
  std::vector<Judged> shipped, source_out, grouped;  ///< by row of the corpus; rows that are not timed keep zeros
  std::map<std::string, FrameworkFit> fits;          ///< by engine, on all rows; shipped
  Prior pooled;
  TrainingFit training;                                 ///< devices, on all rows; shipped
  std::vector<double> source_out_bytes, grouped_bytes;  ///< by row; 0 where no memory was measured
  planner::IntervalTable intervals;                     ///< from the residuals of S on all rows; shipped
  std::map<std::string, Known> left_out;                ///< by family: the coefficients that S predicts with
};

struct ProtocolOptions {
  FrameworkFitOptions fit;
  int folds = 5;
  IntervalOptions interval;
  TrainingFitOptions training;
  double rows_inside = 8;           ///< G: independent rows that the runs of a device count for when devices are fitted
  int rounds = 3;                   ///< alternations of engines (devices held) and devices (engines held)
  bool grouped = true;              ///< G takes most of the time
  std::vector<std::string> judged;  ///< prefixes of the names of judged families; empty: all
  bool only_shipped = false;        ///< fits nothing; predicts with the shipped values under every heading
};

/// Fills source_out_bytes and grouped_bytes; needs the folds.
void judge_memory(const calibrate::Corpus& corpus, Protocols& p);

/// Returns the fold of each row. Groups are dealt largest first to the emptiest fold; names break ties. In a single
/// group, configurations are dealt instead.
std::vector<int> folds_of(const std::vector<const calibrate::CorpusRow*>& rows, int folds);
/// Judges the rows of one family under G and writes their seconds and folds to `out`.
void judge_grouped(const calibrate::Corpus& corpus, const std::string& family, const Known& known, const ProtocolOptions& options,
                   std::vector<Judged>& out);

/// Runs both protocols. Sets the devices of the rows to the fitted values; they keep those fitted to all rows.
Protocols run_protocols(calibrate::Corpus& corpus, const ProtocolOptions& options);

}  // namespace espalier::lab
