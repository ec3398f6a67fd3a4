// SPDX-License-Identifier: Apache-2.0
// How much compute and a collective beside it slow each other down (cost/overlap.h), from two measured steps of
// data-parallel ranks: one that reduces its gradients beside the backward pass and one that reduces them after it.
//
// Both steps do the same arithmetic and send the same gradients. While something runs beside a collective it advances
// at 1/κ of its pace: of O seconds beside each other O·(1 − 1/κ) are lost. Those are what the step with overlap takes
// longer, so that
//     κ_w = O / (O − (W_beside − W_after))     W: seconds of compute of the step, in all ranks, without collectives
//                                              inside it
//     κ_c = O / (O − (C_beside − C_after))     C: seconds of its reductions, waits for other members included
// Neither is below 1. What messages of a bucket take more than one message of all gradients counts as slow-down of the
// collectives.
#pragma once

#include <optional>
#include <vector>

#include "espalier/measured_step.h"
#include "espalier/profile.h"
#include "job/calibration_file.h"
#include "plan/program.h"

namespace espalier::calibrate {

/// Beyond, the runs measured something else, such as a collective that stood still.
inline constexpr double kStrongestSlowdown = 10;

/// One measured step and the lists of its ranks (not folded).
struct StepOfRanks {
  const Program* program = nullptr;
  const MeasuredStep* step = nullptr;
};

/// Seconds of one step, summed over its ranks.
struct OverlapSums {
  double compute = 0;      ///< in operators
  double collectives = 0;  ///< reductions and gathers of data parallelism
  double both = 0;         ///< compute while a collective of the rank was under way
};
/// bad_input: ranks or instructions that are not those of the program.
Result<OverlapSums> overlap_sums(const StepOfRanks& measured);

/// None where less than a twentieth of the compute had a collective beside it: then nothing can be said. Steps of
/// several runs are added up.
std::optional<job::MeasuredOverlap> overlap_slowdown(const std::vector<OverlapSums>& beside,
                                                     const std::vector<OverlapSums>& after);

/// Reads the steps of `runs`, each with the program of its plan.
Result<std::optional<job::MeasuredOverlap>> measured_overlap(const Job& job, const std::vector<OverlapRun>& runs);

}  // namespace espalier::calibrate
