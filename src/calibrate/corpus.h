// SPDX-License-Identifier: Apache-2.0
// Measured runs made ready for fitting: each mapped once to a job and a configuration, then predicted many times with
// other coefficients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/framework_coefficients.h"
#include "runs/validate.h"

namespace espalier::calibrate {

/// A record that can be predicted. `result` is the prediction with the coefficients that ship.
struct CorpusRow {
  RunResult result;
  MappedRun run;
  std::string family;  ///< what counts as one source in cross-validation: `source`, or the prefix that several sources
                       ///< share
  std::string device;  ///< catalogue name
  std::string engine;  ///< under whose name its coefficients are fitted (plan/engine.h, fitted_engine)
  std::string group;   ///< (model, GPU count): what is left out together inside a source
  std::int64_t devices = 1;
  bool trusted = true;  ///< its step time may teach other sources; false: judged, and fitted only inside its own source
                        ///< (G)
  double weight = 1;    ///< how many independent measurements the row stands for: repeats of one configuration share
                        ///< one
  [[nodiscard]] bool timed() const { return result.measured_s.has_value() && *result.measured_s > 0; }
};

/// Whether its step time may teach what other sources are predicted with. Routed experts do not: one configuration
/// differs by up to a factor 2 between releases of one engine, which would be charged to coefficients that dense models
/// share.
bool teaches(const CorpusRow& row);

struct Corpus {
  std::vector<CorpusRow> rows;  ///< in the order of the records
  std::vector<SkippedRun> skipped;
  std::vector<std::string> families;  ///< sorted
};

/// Prefixes of source names.
struct SourceNotes {
  std::vector<std::string> merged;     ///< sources that are one family ("HF Ultra-Scale Playbook")
  std::vector<std::string> untrusted;  ///< step times not made to be representative (functional tests in continuous
                                       ///< integration)
};
Corpus make_corpus(const std::vector<RunRecord>& records, const SourceNotes& notes, int threads);

/// Predicted seconds of a row under other coefficients of its engine.
double predicted_s(const CorpusRow& row, const FrameworkCoefficients& coefficients);
/// The same for many rows; equal for any number of threads.
std::vector<double> predicted_s(const std::vector<const CorpusRow*>& rows, const FrameworkCoefficients& coefficients,
                                int threads);

}  // namespace espalier::calibrate
