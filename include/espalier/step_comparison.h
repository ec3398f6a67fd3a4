// SPDX-License-Identifier: Apache-2.0
// A measured step beside the simulated one: where each rank spent its time, and how long each operator took.
//
// The step of a rank is cut into the same parts on both sides (Breakdown, espalier/simulate.h), which add up to the
// step exactly; the gap between predicted and measured is the sum of the gaps of the parts:
//   compute                 operators                                        measured: what they took, collectives taken off
//   exposed communication   collectives that the rank waits for              measured: inside computations, and idle time while its queue carries one
//   bubble                  waiting for a message or another rank
//   optimizer               the update; predicted also the host's work between two steps, step_host_ns
//   other                   host work beside operators                       measured: all of it, that between steps too
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

struct RankComparison {
  std::int64_t device = 0;
  std::int32_t pipeline = 0, stage = 0;
  Breakdown predicted, measured;
};

/// An operator of all layers of one kind, in one step, summed over the devices that run it.
struct OperatorComparison {
  std::string layer, name;  ///< of the kind of layer, and of the operator in it
  std::string part;         ///< "forward", "input_gradient", "weight_gradient", "recomputation"
  std::int64_t times = 0;   ///< measured
  std::int64_t predicted_ns = 0, measured_ns = 0;
};

struct StepComparison {
  std::int64_t predicted_ns = 0, measured_ns = 0;  ///< of the step
  std::int64_t step = 0, steps = 1;                ///< which step was measured: the one of median length of so many
  std::int64_t clock_error_ns = 0;                 ///< largest of all ranks
  std::vector<RankComparison> ranks;               ///< by device
  std::vector<OperatorComparison> operators;       ///< largest gap first; empty where the stages lie on unlike devices
  Timeline predicted, measured;                    ///< of the first device of each class of equal ranks
};

/// bad_input: the step is of another plan, or its ranks have other lists than this version lowers the plan to.
Result<StepComparison> compare_step(const Job& job, const Plan& plan, const MeasuredStep& measured);

/// For people; no line longer than `width` columns, 0: as wide as it is.
std::string to_text(const StepComparison& comparison, std::size_t width = 0);
/// schema espalier.step-comparison/1
std::string to_json(const StepComparison& comparison);

}  // namespace espalier
