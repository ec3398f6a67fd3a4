// SPDX-License-Identifier: Apache-2.0
// A few own runs adapt a few coefficients: from measured steps and nccl-tests output to a calibration file and a
// statement of what it is worth. Coefficients start from what ships for the engine and are held there by their priors,
//
//   minimise over θ   Σ_i w_i H( log(t_i(θ)/T_i) / σ_i ) + Σ_j ((θ_j − shipped_j)/σ_j)²
//
// with t predicted, T measured, H Huber's loss (threshold 2) and w_i one over the repeats of a configuration. A
// coefficient that the runs do not determine keeps what ships. The error is judged by leaving whole configurations out.
// Source of the method and of the
// interval: docs/accuracy.md and Gelman et al. 2013, ch. 2.6.
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

/// The text of a file, and what messages call it.
struct NamedText {
  std::string name, text;
};

/// A log of a training framework. It says how long steps took; what was trained stands beside it.
struct MeasuredLog {
  NamedText log;  ///< of Megatron-LM, torchtitan or nanotron
  Job job;
  Strategy strategy;
  Schedule schedule;
  std::int64_t warm_up = -1;  ///< step lines to leave out at the beginning; −1: a fifth, and iterations 1 to 5
};

struct CalibrationInputs {
  std::string device;              ///< a name of the catalogue, or the beginning of one only ("h100-sxm")
  std::string engine;              ///< all runs are predicted as this engine; empty: as the records say
  std::vector<NamedText> records;  ///< measured runs, one JSON object a line (espalier/measured_runs.h)
  std::vector<MeasuredLog> logs;
  std::vector<NamedText> nccl_tests;  ///< output of all_reduce_perf and its sisters: adapts the fabric
  std::optional<Cluster> cluster;     ///< where nccl-tests ran; none: usual nodes of the device
  int threads = 2;                    ///< never changes the answer
};

struct CalibratedCoefficient {
  std::string name, meaning;
  double shipped = 0, value = 0;
  double sigma = 0;         ///< posterior: of the logarithm, or in the coefficient's unit where it is added
  bool identified = false;  ///< false: these runs do not determine it, and it keeps what ships
};

struct CalibrationResult {
  std::string device;
  std::string engine;               ///< empty: the fabric alone was fitted
  std::int64_t configurations = 0;  ///< different ones among the runs
  std::vector<CalibratedCoefficient> coefficients;
  ErrorSummary before, held_out, fitted;  ///< of iteration times: with what ships, left out of the fit, and in the fit
  std::string cross_validation;           ///< what was held out, in words; begins with "none" where nothing was
  double level = 0.8, low = 1, high = 1;  ///< interval of a prediction, as factors of it
  std::vector<std::string> notes;
  std::string yaml;  ///< the calibration file, which jobs and read_calibration() accept
  std::string file;  ///< for to_text and to_json: where the caller wrote it; empty: nowhere
  std::shared_ptr<const calibrate::UserCalibration> details;  ///< what the tables of to_text are made from
};

/// Fits. bad_input: a text that cannot be read, runs of several engines, or a cluster of other devices; usage: an
/// unknown device.
Result<CalibrationResult> fit_calibration(const CalibrationInputs& inputs);

/// For people, no line longer than `width` columns; 0: as wide as it is.
std::string to_text(const CalibrationResult& calibration, std::size_t width = 0);
/// schema espalier.calibrate/1
std::string to_json(const CalibrationResult& calibration);

}  // namespace espalier
