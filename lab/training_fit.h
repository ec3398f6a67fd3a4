// SPDX-License-Identifier: Apache-2.0
// What devices keep of the rates of their isolated kernels while they train, from measured runs of all engines
// together.
//
// Operator tables are measured one kernel at a time, with warm caches and full clocks; the forward pass of attention is
// all that they have of it. Under a power limit the clocks fall, by how much depends on device and precision; and the
// backward pass of attention runs at a rate of its own. Neither belongs to an engine: an engine's `compute` that had to
// stand for them would carry the error of one device to all others.
//
//   by chip           sustained, sustained_fp8 (devices that differ in memory or links alone share it: chips())
//   by architecture   attention_backward, attention_flash2 (devices that share it: architectures())
//
// minimise over x   Σ_i w_i · H(log(t_i(x)/T_i)/noise) + Σ_j (log(x_j/prior_j)/σ_j)²
// with the engines' coefficients held; w_i is scaled so that no source counts for more than `most_rows` rows: rows of
// one source share what no device is to blame for (its cluster, its software: σ about 0.12 between sources), so that
// however many they are they are few measurements.
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
  TrainingValues values;                                               ///< fitted ones alone
  std::map<std::pair<std::string, std::string>, double> sigma;         ///< posterior, relative
  std::map<std::pair<std::string, std::string>, std::string> sources;  ///< families that speak of it, joined by ", "
};

struct TrainingFitOptions {
  double noise = 0.08;
  double most_rows = 2;  ///< independent rows that one family counts for
  /// Where values go without data: what the devices of the rows have (what is known of the chip, for runs of one source
  /// that say more), else the catalogue's.
  bool from_rows = false;
  int threads = 1;
};

/// Devices whose attention runs on the same instructions.
const std::vector<std::vector<std::string>>& architectures();
/// Devices of one chip at one power limit, which differ in their memory or in links alone: NVIDIA's data sheets of V100
/// SXM2 (300 W), A100 SXM4 and A800 (400 W), H100 SXM5, H800 and H200 (700 W). Not A100 of 40 GB: what trains on it
/// tells of another rate than what trains on the one of 80 GB.
const std::vector<std::vector<std::string>>& chips();
/// The devices of the same chip; of a chip that chips() does not list, the device alone.
std::vector<std::string> chip_of(const std::string& device);

/// `coefficients`: by Row::engine. Each row teaches.
TrainingFit fit_training(const std::vector<const calibrate::CorpusRow*>& rows,
                         const std::map<std::string, FrameworkCoefficients>& coefficients, const TrainingFitOptions& options);
/// The same of the rows of a corpus whose family is not `without`, that are trusted and timed.
TrainingFit fit_training(const calibrate::Corpus& corpus, const std::map<std::string, FrameworkCoefficients>& coefficients,
                         const std::string& without, const TrainingFitOptions& options);

/// Puts the values into the devices of a row; what has none keeps its value.
void put_training_values(calibrate::CorpusRow& row, const TrainingValues& values);
/// Puts the values into the devices of every row, and the catalogue's into what has none.
void set_training_values(calibrate::Corpus& corpus, const TrainingValues& values);

}  // namespace espalier::lab
