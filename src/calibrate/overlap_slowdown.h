// SPDX-License-Identifier: Apache-2.0
// Computes how much compute and a concurrent collective slow each other down (cost/overlap.h). It uses two measured
// steps of data-parallel ranks: one overlaps the reduction of its gradients with the backward pass, the other reduces
// them after it.
//
// Both steps do the same arithmetic and send the same gradients. An operation that overlaps with a collective
// advances at 1/κ of its pace, so that O seconds of overlap lose O·(1 − 1/κ). The step with overlap is longer by this
// loss, which gives
//     κ_w = O / (O − (W_overlapped − W_after))     W: seconds of compute of the step, in all ranks, without collectives
//                                                  inside it
//     κ_c = O / (O − (C_overlapped − C_after))     C: seconds of its reductions, including waits for other members.
// Neither is below 1. Messages of buckets may take longer than one message of all gradients; the difference counts as
// slow-down of the collectives.
#pragma once

#include <optional>
#include <vector>

#include "espalier/measured_step.h"
#include "espalier/profile.h"
#include "job/calibration_file.h"
#include "plan/program.h"

namespace espalier::calibrate {

/// Limits the slow-down. Above it, the runs measured something else, such as a stalled collective.
inline constexpr double kStrongestSlowdown = 10;

/// Holds one measured step and the lists of its ranks (not folded).
struct StepOfRanks {
  const Program* program = nullptr;
  const MeasuredStep* step = nullptr;
};

/// Holds the seconds of one step, summed over its ranks.
struct OverlapSums {
  double compute = 0;      ///< in operators
  double collectives = 0;  ///< reductions and gathers of data parallelism
  double both = 0;         ///< compute while a collective of the rank was in flight
};
/// Sums a step. Fails (bad_input) where ranks or instructions are not those of the program.
Result<OverlapSums> overlap_sums(const StepOfRanks& measured);

/// Returns the slow-downs; none where less than a twentieth of the compute overlapped with a collective, since
/// nothing can then be concluded. Steps of several runs are added up.
std::optional<job::MeasuredOverlap> overlap_slowdown(const std::vector<OverlapSums>& beside,
                                                     const std::vector<OverlapSums>& after);

/// Reads the steps of `runs`, each with the program of its plan.
Result<std::optional<job::MeasuredOverlap>> measured_overlap(const Job& job, const std::vector<OverlapRun>& runs);

}  // namespace espalier::calibrate
