// SPDX-License-Identifier: Apache-2.0
// Fits the share of the rates of isolated kernels that devices reach in training, from measured runs of
// all engines together.
//
// Operator tables are measured one kernel at a time, with warm caches and full clocks, and cover only the forward
// pass of attention. Under a power limit the clocks fall, by an amount that depends on device and precision. The
// backward pass of attention runs at its own rate. Neither belongs to an engine: otherwise its `compute` would carry
// the error of one device to all others.
//
//   by chip           sustained, sustained_fp8 (shared by devices that differ only in memory or links: chips())
//   by architecture   attention_backward, attention_flash2 (shared by the devices of architectures()).
//
// The fit holds the engines' coefficients and minimises over x
//
//   Σ_i w_i · H(log(t_i(x)/T_i)/noise) + Σ_j (log(x_j/prior_j)/σ_j)²
//
// The weights w_i are scaled so that no source counts for more than `most_rows` rows. Rows of one source share an
// error that no device causes (its cluster, its software: σ about 0.12 between sources). However many there are, they
// are worth few measurements.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/corpus.h"
#include "lab/framework_fit.h"

namespace espalier::lab {

/// Values by (device, field of cluster::efficiency_fields()).
using TrainingValues = std::map<std::pair<std::string, std::string>, double>;

struct TrainingFit {
  TrainingValues values;                                               ///< fitted values only
  std::map<std::pair<std::string, std::string>, double> sigma;         ///< posterior, relative
  std::map<std::pair<std::string, std::string>, std::string> sources;  ///< families that determine it, joined by ", "
};

struct TrainingFitOptions {
  double noise = 0.08;
  double most_rows = 2;  ///< independent rows that one family counts for
  /// Starts values without data from those of the rows' devices instead of the catalogue. A single source uses this
  /// to refine what is known of the chip.
  bool from_rows = false;
  int threads = 1;
};

/// Lists the devices whose attention runs on the same instructions.
const std::vector<std::vector<std::string>>& architectures();
/// Lists the devices of one chip at one power limit, which differ only in memory or links. Power limits are from
/// NVIDIA's data sheets: V100 SXM2 (300 W), A100 SXM4 and A800 (400 W), H100 SXM5, H800 and H200 (700 W). The A100 of
/// 40 GB is not listed with that of 80 GB, since training runs show another rate.
const std::vector<std::vector<std::string>>& chips();
/// Returns the devices of the same chip; the device alone if chips() does not list it.
std::vector<std::string> chip_of(const std::string& device);

/// Fits all given rows. `coefficients` are by Row::engine.
TrainingFit fit_training(const std::vector<const calibrate::CorpusRow*>& rows,
                         const std::map<std::string, FrameworkCoefficients>& coefficients, const TrainingFitOptions& options);
/// Fits the trusted and timed rows of a corpus whose family is not `without`.
TrainingFit fit_training(const calibrate::Corpus& corpus, const std::map<std::string, FrameworkCoefficients>& coefficients,
                         const std::string& without, const TrainingFitOptions& options);

/// Writes the values to the devices of a row; fields without a value stay unchanged.
void put_training_values(calibrate::CorpusRow& row, const TrainingValues& values);
/// Writes the values to the devices of every row; fields without a value get the catalogue's.
void set_training_values(calibrate::Corpus& corpus, const TrainingValues& values);

}  // namespace espalier::lab
