// SPDX-License-Identifier: Apache-2.0
// Turns measurements of ranks into a profile: times of operators, host work per step, the rate of the update, and the
// fabric. A profile is a calibration (espalier/calibration.h) that a job names with `profile: FILE`. Plans are then
// priced with the measurements of this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "espalier/calibrate.h"
#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier {

/// Holds the file that rank 0 of a run wrote with --record, and describes the run.
struct OperatorRecord {
  NamedText text;  ///< schema espalier.operator-times/1
  std::int64_t microbatches = 1;
  bool alone = true;  ///< one rank: the time of its steps outside operators is host work
};

/// Holds what `espalier run --timeline` wrote for data-parallel ranks. Their gradients are reduced during the
/// backward pass, or (without overlap.grad_reduce in the plan's strategy) after it.
struct OverlapRun {
  Plan plan;
  NamedText timeline;  ///< schema espalier.measured-step/1
};

/// Holds the measurements of a profile.
struct ProfileInputs {
  std::vector<OperatorRecord> records;
  /// Holds a profile whose operators and host work are reused; `records` must then be empty.
  std::shared_ptr<const Calibration> earlier;
  std::vector<NamedText> collectives;    ///< output of `espalier profile --network` or nccl-tests
  std::string note;                      ///< machine, date, versions
  std::vector<OverlapRun> overlap = {};  ///< equal numbers of runs with and without overlap; empty: not measured
};

/// Holds the figures of a profile, and its file.
struct Profile {
  std::int64_t operators = 0;            ///< number of rows
  double step_s = 0, micro_batch_s = 0;  ///< host work per step, and per micro-batch
  double update_bytes_per_s = 0;
  double fabric_error = 0;  ///< median |t/T − 1| of held-out collectives; 0: none
  /// Holds the mutual slowdown of compute and communication (cost/overlap.h); 0: not measured.
  double compute_slowdown = 0, communication_slowdown = 0;
  std::vector<std::string> notes;
  std::string yaml;  ///< schema espalier.calibration/1
};

/// Returns the plan to measure: one tensor group of `tp` ranks that runs `microbatches` micro-batches of `samples`
/// samples. `partition` partitions the operators of its blocks; empty: tensor parallelism.
Plan profiled_plan(const Job& job, std::int32_t tp, SequenceParallel sp, std::int32_t samples, std::int32_t microbatches,
                   const BlockPartition& partition = {});
/// Returns the plan of any strategy and schedule on the devices that it needs, with its inputs embedded.
Plan profiled_plan(const Job& job, const Strategy& strategy, const Schedule& schedule);

/// Makes the profile. Fails with bad_input for records that cannot be read, or without token
/// counts to interpolate between.
Result<Profile> make_profile(const Job& job, const ProfileInputs& inputs);

}  // namespace espalier
