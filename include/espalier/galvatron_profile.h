// SPDX-License-Identifier: Apache-2.0
// What `espalier profile` measured, as the files that Galvatron's own profilers write, so that its search runs on a
// machine that it has not measured itself. With b₁ < b₂ samples of the only micro-batch and P(L, b) the peak of a run
// of L blocks, in bytes:
//
//     activation of a block  A = ((P(2,b₂) − P(1,b₂)) − (P(2,b₁) − P(1,b₁))) / (b₂ − b₁)      of a sample
//     states of a block      S = P(2,b₁) − P(1,b₁) − A·b₁
//     embedding and head     a = (P(1,b₂) − P(1,b₁)) / (b₂ − b₁) − A of a sample, P(1,b₁) − (A + a)·b₁ − S states
//     the same of a stage    of runs of two stages of one block each
//
// Times of layers are the sums of their operators' forward passes on one rank. Bandwidths are those of the largest
// message. File formats: src/galvatron/profile_files.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/job.h"
#include "espalier/result.h"

namespace espalier {

/// Describes one step of a model of few blocks, one micro-batch at a time.
struct MemoryRun {
  std::int32_t tp = 1, stages = 1;
  bool recomputed = false;               ///< blocks are recomputed fully
  std::int64_t blocks = 1, samples = 1;  ///< of the model; of the micro-batch
  std::vector<std::int64_t> peak_bytes;  ///< by rank: stage after stage
};

struct MachineMeasurements {
  std::vector<std::int64_t> samples;  ///< of micro-batches whose operators the job's profile has
  std::vector<MemoryRun> memory;
  std::string collectives_name, collectives;  ///< what `espalier profile --network` wrote; empty: nothing of the
                                              ///< network
};

struct ProfileFile {
  std::string name, text;
};

/// The files that the measurements suffice for. `job` uses a profile (Job::calibration with operators). bad_input: no
/// profile, blocks of several kinds, runs that lack their pair, or tables that cannot be read.
Result<std::vector<ProfileFile>> galvatron_profile(const Job& job, const MachineMeasurements& measured);

}  // namespace espalier
