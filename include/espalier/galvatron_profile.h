// SPDX-License-Identifier: Apache-2.0
// Writes the measurements of `espalier profile` as the files of Galvatron's own profilers. Galvatron's search can
// then plan for a machine that its own profilers have not measured. Let b₁ < b₂ be the samples of the only
// micro-batch, and P(L, b) the peak of a run of L blocks, in bytes.
//
//     activation of a block  A = ((P(2,b₂) − P(1,b₂)) − (P(2,b₁) − P(1,b₁))) / (b₂ − b₁)      per sample
//     states of a block      S = P(2,b₁) − P(1,b₁) − A·b₁
//     embedding and head     a = (P(1,b₂) − P(1,b₁)) / (b₂ − b₁) − A per sample, P(1,b₁) − (A + a)·b₁ − S for states
//     per stage              as above, from runs of two stages of one block each.
//
// The time of a layer is the sum of its operators' forward passes on one rank. Bandwidths are those of the largest
// message. src/galvatron/profile_files.h documents the file formats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/job.h"
#include "espalier/result.h"

namespace espalier::exchange {

/// Describes one step of a model with few blocks, run one micro-batch at a time.
struct MemoryRun {
  std::int32_t tp = 1, stages = 1;
  bool recomputed = false;               ///< all blocks use full recomputation
  std::int64_t blocks = 1, samples = 1;  ///< blocks of the model; samples of the micro-batch
  std::vector<std::int64_t> peak_bytes;  ///< by rank, stage after stage
};

/// Holds the measurements of one machine.
struct MachineMeasurements {
  std::vector<std::int64_t> samples;  ///< micro-batch sizes for which the job's profile has operators
  std::vector<MemoryRun> memory;
  /// Name and text of the file that `espalier profile --network` wrote; empty when the network was not measured.
  std::string collectives_name, collectives;
};

/// Holds one file to write.
struct ProfileFile {
  std::string name, text;
};

/// Returns the files for which the measurements suffice. `job` uses a profile (Job::calibration with operators).
/// Fails with bad_input without a profile, for blocks of several kinds, for runs that lack their pair, and for tables
/// that cannot be read.
Result<std::vector<ProfileFile>> galvatron_profile(const Job& job, const MachineMeasurements& measured);

}  // namespace espalier::exchange
