// SPDX-License-Identifier: Apache-2.0
// Fits a few coefficients to your own runs: reads measured steps and nccl-tests output, and returns a calibration file
// with its held-out error. Coefficients start at the values shipped for the engine, and their priors pull them
// towards these values:
//
//   minimise over θ   Σ_i w_i H( log(t_i(θ)/T_i) / σ_i ) + Σ_j ((θ_j − shipped_j)/σ_j)²
//
// where t is the predicted and T the measured time, H is Huber's loss (threshold 2), and w_i is one over the
// repeats of a configuration. A coefficient that the runs do not determine keeps its shipped value. The error is
// measured by leaving whole configurations out of the fit. The method follows Gelman et al. 2013, ch. 2.6;
// docs/accuracy.md explains the interval.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/result.h"
#include "espalier/validate.h"

namespace espalier {

namespace calibrate {
struct UserCalibration;
}

/// Holds the text of a file and the name that messages use for it.
struct NamedText {
  std::string name, text;
};

/// Pairs the log of a training framework with the configuration that was trained. The log
/// itself contains step times only.
struct MeasuredLog {
  NamedText log;  ///< written by Megatron-LM, torchtitan or nanotron
  Job job;
  Strategy strategy;
  Schedule schedule;
  std::optional<std::int64_t> warm_up;  ///< step lines to skip at the start; none: a fifth of them, and steps 1 to 5
};

/// Holds the measurements to fit, and their device and engine.
struct CalibrationInputs {
  std::string device;              ///< catalogue name, or an unambiguous prefix of one ("h100-sxm")
  std::string engine;              ///< engine of all predictions; empty: the engine of each record
  std::vector<NamedText> records;  ///< measured runs, one JSON object per line (espalier/measured_runs.h)
  std::vector<MeasuredLog> logs;
  std::vector<NamedText> nccl_tests;  ///< output of all_reduce_perf and similar tests; fits the fabric
  std::optional<Cluster> cluster;     ///< cluster on which nccl-tests ran; none: usual nodes of the device
  int threads = 2;                    ///< number of threads; never changes the answer
};

/// Describes one coefficient before and after the fit.
struct CalibratedCoefficient {
  std::string name, meaning;
  double shipped = 0, value = 0;
  double sigma = 0;         ///< posterior, of the logarithm; in the coefficient's unit if it is additive
  bool identified = false;  ///< false: the runs do not determine it, and it keeps its shipped value
};

/// Holds the fitted coefficients, their errors and the calibration file.
struct CalibrationResult {
  std::string device;
  std::string engine;               ///< empty: only the fabric was fitted
  std::int64_t configurations = 0;  ///< distinct configurations among the runs
  std::vector<CalibratedCoefficient> coefficients;
  ErrorSummary before, held_out, fitted;  ///< errors of step times: as shipped, held out, and in the fit
  std::string cross_validation;           ///< how runs were held out; begins with "none" where none were
  double level = 0.8, low = 1, high = 1;  ///< interval of a prediction, as factors on it
  std::vector<std::string> notes;
  std::string yaml;  ///< the calibration file, which jobs and read_calibration() accept
  std::string file;  ///< path to which the caller wrote it, for to_text and to_json; empty: none
  std::shared_ptr<const calibrate::UserCalibration> details;  ///< data behind the tables of to_text
};

/// Fits the coefficients. Fails with bad_input for a text that cannot be read, runs of several engines, or a cluster
/// of other devices. Fails with usage for an unknown device.
Result<CalibrationResult> fit_calibration(const CalibrationInputs& inputs);

/// Returns text for a terminal, wrapped at `width` columns; 0 does not wrap.
std::string to_text(const CalibrationResult& calibration, std::size_t width = 0);
/// Returns JSON of schema espalier.calibrate/1.
std::string to_json(const CalibrationResult& calibration);

}  // namespace espalier
