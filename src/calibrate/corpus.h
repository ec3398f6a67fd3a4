// SPDX-License-Identifier: Apache-2.0
// Prepares measured runs for fitting: each is mapped once to a job and a configuration, then predicted many times
// with other coefficients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/framework_coefficients.h"
#include "runs/validate.h"

namespace espalier::calibrate {

/// Holds a record that can be predicted. `result` is the prediction with the shipped coefficients.
struct CorpusRow {
  RunResult result;
  MappedRun run;
  /// This is the unit of cross-validation: `source`, or the prefix that several sources share.
  std::string family;
  std::string device;  ///< catalogue name
  std::string engine;  ///< its coefficients are fitted under this name (plan/engine.h, fitted_engine)
  std::string group;   ///< (model, GPU count): left out together inside a source
  std::int64_t devices = 1;
  /// The step time may teach other sources. Where false, it is judged, and fitted only inside its own source (G).
  bool trusted = true;
  /// The row represents this many independent measurements; repeats of one configuration share one.
  double weight = 1;
  [[nodiscard]] bool timed() const { return result.measured_s.has_value() && *result.measured_s > 0; }
};

/// Returns whether a row's step time may affect predictions of other sources. Routed experts do not: one
/// configuration differs by up to a factor 2 between releases of one engine. Coefficients that dense models share
/// would absorb that difference.
bool teaches(const CorpusRow& row);

struct Corpus {
  std::vector<CorpusRow> rows;  ///< in the order of the records
  std::vector<SkippedRun> skipped;
  std::vector<std::string> families;  ///< sorted
};

/// Lists prefixes of source names.
struct SourceNotes {
  std::vector<std::string> merged;  ///< sources that are one family ("HF Ultra-Scale Playbook")
  /// Their step times are not representative (functional tests in continuous integration).
  std::vector<std::string> untrusted;
};
Corpus make_corpus(const std::vector<RunRecord>& records, const SourceNotes& notes, int threads);

/// Returns the predicted seconds of a row under other coefficients of its engine.
double predicted_s(const CorpusRow& row, const FrameworkCoefficients& coefficients);
/// Predicts many rows; the result is equal for any number of threads.
std::vector<double> predicted_s(const std::vector<const CorpusRow*>& rows, const FrameworkCoefficients& coefficients,
                                int threads);

}  // namespace espalier::calibrate
