// SPDX-License-Identifier: Apache-2.0
// From what ranks measured to a profile: times of operators, host work of a step, the rate of the update, and the
// fabric. A profile is a calibration (espalier/calibration.h) that a job names with `profile: FILE`: plans are then
// priced by what this machine was seen to take.
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

/// What rank 0 of a run wrote with --record, and the run it was.
struct OperatorRecord {
  NamedText text;  ///< schema espalier.operator-times/1
  std::int64_t microbatches = 1;
  bool alone = true;  ///< one rank: what its steps take beside operators is host work
};

/// What `espalier run --timeline` wrote of data-parallel ranks whose gradients are reduced beside the backward pass, or
/// (without overlap.grad_reduce in the plan's strategy) after it.
struct OverlapRun {
  Plan plan;
  NamedText timeline;  ///< schema espalier.measured-step/1
};

struct ProfileInputs {
  std::vector<OperatorRecord> records;
  std::shared_ptr<const Calibration> earlier;  ///< a profile whose operators and host work are taken over; then no
                                               ///< records
  std::vector<NamedText> collectives;          ///< of `espalier profile --network`, or of nccl-tests
  std::string note;                            ///< machine, date, versions
  std::vector<OverlapRun> overlap = {};        ///< as many beside as after; empty: not measured
};

struct Profile {
  std::int64_t operators = 0;            ///< rows
  double step_s = 0, micro_batch_s = 0;  ///< host work of a step, and of a micro-batch
  double update_bytes_per_s = 0;
  double fabric_error = 0;                                  ///< median |t/T − 1| of the collectives, held out; 0
                                                            ///< without
  double compute_slowdown = 0, communication_slowdown = 0;  ///< of each beside the other (cost/overlap.h); 0: not
                                                            ///< measured
  std::vector<std::string> notes;
  std::string yaml;  ///< schema espalier.calibration/1
};

/// The plan of one tensor group of `tp` ranks that runs `microbatches` micro-batches of `samples` samples: what is
/// measured. `partition`: of the operators of its blocks; none: tensor parallelism.
Plan profiled_plan(const Job& job, std::int32_t tp, SequenceParallel sp, std::int32_t samples, std::int32_t microbatches,
                   const BlockPartition& partition = {});
/// The plan of any strategy and schedule on as many devices as it needs, its inputs embedded.
Plan profiled_plan(const Job& job, const Strategy& strategy, const Schedule& schedule);

/// bad_input: records that cannot be read, or no counts of tokens to interpolate between.
Result<Profile> make_profile(const Job& job, const ProfileInputs& inputs);

}  // namespace espalier
