// SPDX-License-Identifier: Apache-2.0
// Compares a measured step with the simulated one: where each rank spent its time, and how long each operator took.
//
// Both sides cut the step of a rank into the same parts (Breakdown, espalier/simulate.h), which add up to the step
// exactly. The gap between predicted and measured is the sum of the gaps of the parts:
//   compute                 operators                              measured: their time without collectives
//   exposed communication   collectives that the rank waits for    measured: inside computations, and idle time while
//                                                                  the rank's queue carries one
//   bubble                  waiting for a message or another rank
//   optimizer               the update; predicted: also the host's work between two steps, step_host_ns
//   other                   host work outside operators            measured: all of it, including that between steps
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "espalier/job.h"
#include "espalier/measured_step.h"
#include "espalier/plan.h"
#include "espalier/result.h"
#include "espalier/simulate.h"
#include "espalier/timeline.h"

namespace espalier {

/// Holds the parts of one rank's step.
struct RankComparison {
  std::int64_t device = 0;
  std::int32_t pipeline = 0, stage = 0;
  Breakdown predicted, measured;
};

/// Holds the times of an operator over all layers of one kind in one step, summed over the devices that run it.
struct OperatorComparison {
  std::string layer, name;  ///< names of the kind of layer, and of the operator in it
  std::string part;         ///< "forward", "input_gradient", "weight_gradient", "recomputation"
  std::int64_t times = 0;   ///< number of measured runs
  std::int64_t predicted_ns = 0, measured_ns = 0;
};

/// Holds a predicted step next to the measured one.
struct StepComparison {
  std::int64_t predicted_ns = 0, measured_ns = 0;  ///< duration of the step
  std::int64_t step = 0, steps = 1;                ///< number of the median step, and number of measured steps
  std::int64_t clock_error_ns = 0;                 ///< largest of all ranks
  std::vector<RankComparison> ranks;               ///< by device
  std::vector<OperatorComparison> operators;       ///< largest gap first; empty if the stages use unlike devices
  Timeline predicted, measured;                    ///< first device of each class of equal ranks
};

/// Compares a measured step with the plan's prediction. Fails with bad_input if the step belongs to another plan, or
/// if its ranks have other instruction lists than those to which this version lowers the plan.
Result<StepComparison> compare_step(const Job& job, const Plan& plan, const MeasuredStep& measured);

/// Returns text for a terminal, wrapped at `width` columns; 0 does not wrap.
std::string to_text(const StepComparison& comparison, std::size_t width = 0);
/// Returns JSON of schema espalier.step-comparison/1.
std::string to_json(const StepComparison& comparison);

}  // namespace espalier
